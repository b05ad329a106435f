from fact_check_service.knowledge.command import main

main()
