"""What is read of the services' metrics."""

from __future__ import annotations

from bench import measure

METRICS = """\
# TYPE tandem_verify_step_seconds histogram
tandem_verify_step_seconds_bucket{phase="wait",le="0.5"} 2.0
tandem_verify_step_seconds_sum{phase="wait"} 0.25
tandem_verify_step_seconds_sum{phase="model"} 0.5
# TYPE tandem_verify_pass_seconds summary
tandem_verify_pass_seconds_count{rows="1"} 3.0
tandem_verify_pass_seconds_count{rows="2"} 4.0
# TYPE tandem_draft_blocks counter
tandem_draft_blocks_total{outcome="verified"} 5.0
tandem_draft_blocks_total{outcome="stale"} 6.0
"""


def test_phases_and_outcomes_are_told_apart_and_other_labels_are_summed() -> None:
    assert measure.totals(METRICS) == {
        "tandem_verify_step_seconds_sumwait": 0.25,
        "tandem_verify_step_seconds_summodel": 0.5,
        "tandem_verify_pass_seconds_count": 7.0,
        "tandem_draft_blocks_totalverified": 5.0,
        "tandem_draft_blocks_totalstale": 6.0,
    }
