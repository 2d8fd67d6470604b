"""A cron line in words, where there are easy ones."""

from __future__ import annotations

import re

#: As cron counts them; Sunday is 0 and 7.
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_TIME = re.compile(r"(?P<minute>\d{1,2}) (?P<hour>\d{1,2}) (?P<day>\S+) \* (?P<weekday>\S+)")
_STEP = re.compile(r"\*/(\d{1,2}) \* \* \* \*")
_HOURLY = re.compile(r"(\d{1,2}) \* \* \* \*")


def cadence(cron: str) -> str | None:
    """`0 3 * * *` → `Every day at 03:00`. None where only the line itself is exact enough."""
    line = " ".join(cron.split())
    if line == "* * * * *":
        return "Every minute"
    if step := _STEP.fullmatch(line):
        return f"Every {step[1]} minutes" if 60 % int(step[1]) == 0 else None
    if hourly := _HOURLY.fullmatch(line):
        return f"Every hour, at {int(hourly[1])} minutes past"
    if time := _TIME.fullmatch(line):
        days = _days(time["day"], time["weekday"])
        return f"{days} at {int(time['hour']):02}:{int(time['minute']):02}" if days else None
    return None


def _days(day: str, weekday: str) -> str | None:
    match day, weekday:
        case "*", "*":
            return "Every day"
        case "*", "1-5":
            return "Monday to Friday"
        case "*", one if re.fullmatch("[0-7]", one):
            return f"Every {DAYS[int(one)]}"
        case one, "*" if re.fullmatch(r"\d{1,2}", one):
            return f"On day {int(one)} of every month"
        case _:
            return None
