from build import Progress


def test_a_terminal_gets_a_bar_that_is_redrawn():
    progress = Progress(terminal=True, started_s=0.0)
    assert progress.receive("[5/10] Building a.o", 3.0) == "\r\x1b[K[###############...............] 5/10 3 s"


def test_elsewhere_lines_are_sparse_and_the_last_one_always_comes():
    progress = Progress(terminal=False, started_s=0.0)
    shown = [progress.receive(f"[{step}/100] Building", float(step)) for step in range(1, 101)]
    lines = [line for line in shown if line]
    assert lines[0] == "native: 1/100 after 1 s\n"
    assert lines[-1] == "native: 100/100 after 100 s\n"
    assert len(lines) < 12


def test_other_output_is_kept_for_the_failure_report_only():
    progress = Progress(terminal=False, started_s=0.0)
    assert progress.receive("error: no such thing", 0.0) == ""
    assert list(progress.recent) == ["error: no such thing"]
