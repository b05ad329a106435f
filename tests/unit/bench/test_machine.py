"""What the measured machine says of itself."""

from __future__ import annotations

from bench import machine

CPU_INFO = """\
processor\t: 0
model name\t: Some CPU
flags\t\t: fpu avx2 avx512f avx512_vnni avx2048

processor\t: 1
flags\t\t: fpu
"""


def test_instruction_sets_are_whole_flags_of_the_first_processor() -> None:
    assert machine.instruction_sets(CPU_INFO) == ("avx2", "avx512f", "avx512_vnni")


def test_a_system_without_flags_has_none() -> None:
    assert machine.instruction_sets("") == ()


def test_a_machine_is_described_in_one_line() -> None:
    described = machine.Machine("Some CPU", ("avx2",), 2, 41.25e9)
    assert str(described) == "Some CPU; avx2; 2 threads; reads 41.2 GB/s"
