"""The real window against an endpoint: it shows what is so, and its buttons do what they say."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from node_app.status.local_address import ADDRESS_FILE
from tests.integration.node_app.ui import fake_agent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from node_app.ui.application import TrayApplication
    from tests.integration.node_app.ui.fake_agent import FakeAgent

    Wait = Callable[..., None]

pytestmark = pytest.mark.qt


def start(tray: TrayApplication) -> None:
    tray.start(is_hidden=False)


def headline(tray: TrayApplication) -> str:
    return tray.window.headline.text()


def shows(tray: TrayApplication, text: str) -> Callable[[], bool]:
    return lambda: headline(tray) == text


def press(widget: object, key: str = "Key_Space") -> None:
    """Press a button from the keyboard, as somebody without a mouse does."""
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest

    widget.setFocus()
    QTest.keyClick(widget, getattr(Qt.Key, key))


def test_a_serving_node_is_shown_with_its_figures(tray: TrayApplication, agent: FakeAgent, wait_until: Wait) -> None:
    start(tray)
    wait_until(shows(tray, "Serving"))
    window = tray.window
    assert window.isVisible()
    assert window.detail.text() == "2 sessions running."
    assert window.value_of("Model") == "model.gguf"
    assert window.value_of("Layers") == "15-29 of 30"
    assert window.value_of("Speed") == "41.2 tokens/s"
    assert window.value_of("Credits") == "-"
    assert (window.pause_button.isEnabled(), window.resume_button.isVisible()) == (True, False)
    assert agent.asked("GET /log") == 0  # nobody looks at it


def test_pause_and_resume_do_what_they_say(tray: TrayApplication, agent: FakeAgent, wait_until: Wait) -> None:
    start(tray)
    wait_until(shows(tray, "Serving"))
    press(tray.window.pause_button)
    assert not tray.window.pause_button.isEnabled()  # at once: a second press is none
    wait_until(shows(tray, "Paused"))
    assert agent.asked("POST /pause") == 1
    assert not tray.window.pause_button.isVisible()
    wait_until(tray.window.resume_button.isEnabled)
    press(tray.window.resume_button)
    wait_until(shows(tray, "Serving"))
    assert (agent.asked("POST /pause"), agent.asked("POST /resume")) == (1, 1)


def test_the_menu_does_the_same(tray: TrayApplication, agent: FakeAgent, wait_until: Wait) -> None:
    start(tray)
    wait_until(shows(tray, "Serving"))
    assert tray.tray.state_action.text() == "Serving"
    tray.tray.pause_action.trigger()
    wait_until(shows(tray, "Paused"))
    assert not tray.tray.pause_action.isVisible()
    tray.tray.resume_action.trigger()
    wait_until(shows(tray, "Serving"))
    assert (agent.asked("POST /pause"), agent.asked("POST /resume")) == (1, 1)


def test_a_lever_that_fails_is_told(tray: TrayApplication, agent: FakeAgent, wait_until: Wait) -> None:
    agent.refuses = "/pause"
    start(tray)
    wait_until(shows(tray, "Serving"))
    press(tray.window.pause_button)
    wait_until(tray.window.problem.isVisible)
    assert tray.window.problem.text() == "The node did not pause: it answered with status 500."
    assert tray.window.pause_button.isEnabled()


def test_quitting_the_node_waits_until_it_is_gone(tray: TrayApplication, agent: FakeAgent, wait_until: Wait) -> None:
    ended: list[bool] = []
    tray.ended.connect(lambda: ended.append(True))
    agent.is_gone_after_quit = False
    start(tray)
    wait_until(shows(tray, "Serving"))
    press(tray.window.quit_button)
    assert tray.question.isVisible()
    assert "2 sessions would end" in tray.question.informativeText()
    tray.question.node_button.click()
    wait_until(shows(tray, "The node is ending"))
    wait_until(lambda: agent.asked("POST /quit") == 1)
    assert not tray.window.pause_button.isEnabled()
    assert not ended
    agent.stop_listening()
    wait_until(lambda: ended)


def test_quitting_only_the_tray_leaves_the_node_alone(
    tray: TrayApplication, agent: FakeAgent, wait_until: Wait
) -> None:
    ended: list[bool] = []
    tray.ended.connect(lambda: ended.append(True))
    start(tray)
    wait_until(shows(tray, "Serving"))
    tray.ask_to_quit()
    tray.question.tray_button.click()
    wait_until(lambda: ended)
    assert agent.asked("POST /quit") == 0


def test_staying_changes_nothing(tray: TrayApplication, agent: FakeAgent, wait_until: Wait) -> None:
    ended: list[bool] = []
    tray.ended.connect(lambda: ended.append(True))
    start(tray)
    wait_until(shows(tray, "Serving"))
    tray.ask_to_quit()
    press(tray.question.stay_button, "Key_Escape")
    wait_until(lambda: not tray.question.isVisible())
    asked = agent.asked("GET /status")
    wait_until(lambda: agent.asked("GET /status") > asked)
    assert (ended, agent.asked("POST /quit"), headline(tray)) == ([], 0, "Serving")


def test_a_node_that_starts_later_shows_up(
    tray: TrayApplication, tmp_path: Path, wait_until: Wait, qt_application: object
) -> None:
    start(tray)
    wait_until(shows(tray, "No node is running"))
    assert "meshnet node --site" in tray.window.command.text()
    assert f"--state-dir {tmp_path}" in tray.window.command.text()
    press(tray.window.copy_button)
    assert qt_application.clipboard().text() == tray.window.command.text()
    with fake_agent.FakeAgent(tmp_path):
        wait_until(shows(tray, "Serving"))
        assert not tray.window.command.isVisible()
    wait_until(shows(tray, "No node is running"))


def test_a_node_that_was_killed_and_started_again(
    tray: TrayApplication, agent: FakeAgent, tmp_path: Path, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    from node_app.ui.tray_icon import TrayIcon

    said: list[str] = []
    monkeypatch.setattr(TrayIcon, "announce", lambda self, announcement: said.append(announcement.title))
    start(tray)
    wait_until(shows(tray, "Serving"))
    agent.stop_listening()
    wait_until(shows(tray, "The node ended unexpectedly"))
    assert f"Process {os.getpid()}" in tray.window.detail.text()
    with fake_agent.FakeAgent(tmp_path, pid=os.getpid() + 1):
        wait_until(shows(tray, "Serving"))
    assert said == ["The node ended unexpectedly", "The node was restarted"]


@pytest.mark.parametrize(
    ("misbehaviour", "expected", "detail"),
    [
        (fake_agent.answer_garbage, "Another program answers", "connection broke"),
        (fake_agent.answer_another_page, "Another program answers", "not a JSON object"),
        (fake_agent.answer_hugely, "Another program answers", "too large"),
        (fake_agent.answer_half, "Another program answers", "connection broke"),
        (fake_agent.redirect_elsewhere, "Another program answers", "302"),
        ("never", "The node does not answer", "too busy"),
        ("drips", "The node does not answer", "too busy"),
    ],
)
def test_an_endpoint_that_misbehaves_is_named_and_recovers(
    misbehaviour: object, expected: str, detail: str, tray: TrayApplication, agent: FakeAgent, wait_until: Wait
) -> None:
    over = threading.Event()
    made = {"never": fake_agent.answer_never, "drips": fake_agent.answer_in_drips}
    agent.misbehaviour = made[misbehaviour](over) if isinstance(misbehaviour, str) else misbehaviour
    try:
        start(tray)
        wait_until(shows(tray, expected))
        assert detail in tray.window.detail.text()
        assert agent.asked("GET /elsewhere") == 0
    finally:
        over.set()
    agent.misbehaviour = None
    wait_until(shows(tray, "Serving"))


def test_a_wrong_token_is_refused_and_found_anew(tray: TrayApplication, agent: FakeAgent, wait_until: Wait) -> None:
    agent.write_address(token="another-token-0123456789")
    start(tray)
    wait_until(shows(tray, "The node refuses this window"))
    agent.write_address()
    wait_until(shows(tray, "Serving"))


def test_a_damaged_address_file_is_named(tray: TrayApplication, tmp_path: Path, wait_until: Wait) -> None:
    (tmp_path / ADDRESS_FILE).write_text('{"url": "http://192.0.2.7:80"}')
    start(tray)
    wait_until(shows(tray, "Another program answers"))
    assert ADDRESS_FILE in tray.window.detail.text()


def test_the_window_goes_on_while_the_endpoint_is_silent(
    tray: TrayApplication, agent: FakeAgent, wait_until: Wait
) -> None:
    from PySide6.QtCore import QTimer

    agent.misbehaviour = fake_agent.answer_never(agent.over)
    ticks: list[float] = []
    ticking = QTimer(interval=5)
    ticking.timeout.connect(lambda: ticks.append(time.monotonic()))
    ticking.start()
    start(tray)
    wait_until(shows(tray, "The node does not answer"))
    ticking.stop()
    assert len(ticks) > 20  # a blocking request would have left none in its 400 ms


def test_the_log_is_read_while_it_is_shown_and_not_otherwise(
    tray: TrayApplication, agent: FakeAgent, wait_until: Wait
) -> None:
    agent.log_lines = ["20:00:00 INFO    worker 7 started", "20:00:01 INFO    <b>layers</b> 0:4 loaded"]
    start(tray)
    wait_until(shows(tray, "Serving"))
    press(tray.window.log_button)
    wait_until(lambda: "loaded" in tray.window.log_panel.toPlainText())
    assert tray.window.log_panel.toPlainText().splitlines() == agent.log_lines
    press(tray.window.log_button)
    assert not tray.window.log_panel.isVisible()
    wait_until(lambda: tray.watcher.in_flight == 0)
    asked, polls = agent.asked("GET /log"), agent.asked("GET /status")
    wait_until(lambda: agent.asked("GET /status") >= polls + 3)
    assert agent.asked("GET /log") <= asked + 1


def test_the_log_follows_its_end_unless_the_reader_scrolled(
    tray: TrayApplication, agent: FakeAgent, wait_until: Wait
) -> None:
    from PySide6.QtWidgets import QAbstractSlider

    agent.log_lines = [f"20:00:{second:02} INFO    {'word ' * 30}" for second in range(60)]
    start(tray)
    wait_until(shows(tray, "Serving"))
    tray.window.log_button.click()
    bar = tray.window.log_panel.verticalScrollBar()
    wait_until(lambda: bar.maximum() > 30 and bar.value() == bar.maximum())
    agent.log_lines = [*agent.log_lines, "20:01:00 INFO    the newest"]
    wait_until(lambda: "the newest" in tray.window.log_panel.toPlainText())
    wait_until(lambda: bar.value() == bar.maximum())
    bar.triggerAction(QAbstractSlider.SliderAction.SliderPageStepSub)
    place = bar.value()
    assert place < bar.maximum()
    agent.log_lines = [*agent.log_lines, "20:01:01 INFO    newer still"]
    wait_until(lambda: "newer still" in tray.window.log_panel.toPlainText())
    assert bar.value() == place
    bar.triggerAction(QAbstractSlider.SliderAction.SliderToMaximum)
    agent.log_lines = [*agent.log_lines, "20:01:02 INFO    newest of all"]
    wait_until(lambda: "newest of all" in tray.window.log_panel.toPlainText())
    wait_until(lambda: bar.value() == bar.maximum())


def test_closing_releases_timers_and_requests(tray: TrayApplication, agent: FakeAgent, wait_until: Wait) -> None:
    from PySide6.QtCore import QTimer

    agent.misbehaviour = fake_agent.answer_never(agent.over)
    start(tray)
    wait_until(lambda: agent.seen)
    assert tray.watcher.in_flight == 1
    changes: list[bool] = []
    tray.watcher.changed.connect(lambda: changes.append(True))
    tray.close()
    tray.close()
    assert tray.watcher.in_flight == 0
    assert not any(timer.isActive() for timer in tray.findChildren(QTimer))
    seen = len(agent.seen)
    agent.over.set()
    waited_until_s = time.monotonic() + 0.3
    wait_until(lambda: time.monotonic() > waited_until_s)
    assert (len(agent.seen), changes) == (seen, [])


def test_nothing_is_kept_of_an_answer(tray: TrayApplication, agent: FakeAgent, wait_until: Wait) -> None:
    """A tray looks once a second for weeks; PySide6 6.8 keeps each reply one of whose signals was connected."""
    start(tray)
    tray.window.log_button.click()
    wait_until(lambda: agent.asked("GET /log") >= 30)
    tray.close()
    gc.collect()
    assert [type(one).__name__ for one in gc.get_objects() if type(one).__name__ == "QNetworkReply"] == []


def test_without_a_panel_icon_the_window_never_hides(tray: TrayApplication, agent: FakeAgent, wait_until: Wait) -> None:
    ended: list[bool] = []
    tray.ended.connect(lambda: ended.append(True))
    assert not tray.tray.is_there  # off screen there is no panel
    tray.start(is_hidden=True)
    wait_until(shows(tray, "Serving"))
    assert tray.window.isVisible()
    tray.window.close()
    assert ended
    assert agent.asked("POST /quit") == 0


def test_with_a_panel_icon_the_window_hides_and_comes_back(
    tray: TrayApplication, agent: FakeAgent, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    from node_app.ui.tray_icon import TrayIcon

    is_there = [True]
    monkeypatch.setattr(TrayIcon, "is_there", property(lambda self: is_there[0]))
    ended: list[bool] = []
    tray.ended.connect(lambda: ended.append(True))
    tray.start(is_hidden=True)
    wait_until(lambda: tray.view.headline == "Serving")
    assert not tray.window.isVisible()
    tray.tray.open_action.trigger()
    assert tray.window.isVisible()
    tray.window.close()
    assert not tray.window.isVisible()
    assert not ended
    is_there[0] = False  # the panel crashed
    wait_until(tray.window.isVisible)


def test_words_from_elsewhere_are_never_markup(tray: TrayApplication, agent: FakeAgent, wait_until: Wait) -> None:
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QLabel

    foreign = "<img src='file:///etc/hostname'><b>x</b>" + "y" * 80
    agent.fields |= {"name": foreign, "model": foreign, "state": "degraded", "reason": foreign}
    start(tray)
    wait_until(shows(tray, "Not serving"))
    assert tray.window.detail.text().startswith("<img src=")
    for label in tray.window.findChildren(QLabel):
        if "<" in label.text():
            assert label.textFormat() is Qt.TextFormat.PlainText
        assert "<img" not in label.toolTip()
    assert "<img" not in tray.view.tooltip


def test_everything_is_reached_by_the_keyboard_and_has_a_name(
    tray: TrayApplication, agent: FakeAgent, wait_until: Wait
) -> None:
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QPushButton

    start(tray)
    wait_until(shows(tray, "Serving"))
    buttons = [button for button in tray.window.findChildren(QPushButton) if button.isVisible()]
    assert len(buttons) == 3
    for button in buttons:
        assert "&" in button.text()
        assert button.accessibleDescription()
        assert button.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert tray.window.icon_label.accessibleName() == "State: Serving"
    assert tray.window.log_panel.accessibleName()


def test_each_mood_has_an_icon_of_its_own(tray: TrayApplication) -> None:
    from PySide6.QtCore import QSize

    from node_app.ui.icons import SIZES_PX, make_icon
    from node_app.ui.view import Mood

    for size_px in SIZES_PX:
        # In shades of grey: who cannot tell colours apart sees shapes.
        images = [make_icon(mood).pixmap(QSize(size_px, size_px), 1.0).toImage() for mood in Mood]
        shapes = [
            tuple(
                image.pixelColor(x, y).lightness() > 200 and image.pixelColor(x, y).alpha() > 200
                for x in range(size_px)
                for y in range(size_px)
            )
            for image in images
        ]
        assert all(any(shape) for shape in shapes)
        assert len(set(shapes)) == len(Mood)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is not counted from Python 3.12 on")
def test_the_bindings_leave_none_alone(tray: TrayApplication) -> None:
    """PySide6 6.12.0 fails this: each call takes a reference to None away, and the process is aborted in the end."""
    from node_app.ui.errands import Errands
    from node_app.ui.view import present
    from tests.unit.node_app.statuses import connected

    views = [present(connected(sessions=count), Errands()) for count in (0, 1)]
    tray.window.show_view(views[0])
    before = sys.getrefcount(None)
    for turn in range(200):
        tray.window.show_view(views[turn % 2])
        tray.tray.show_view(views[turn % 2])
    assert abs(sys.getrefcount(None) - before) < 100
