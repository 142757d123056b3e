"""What StatusHandler of data-platform-helpers says, in the words of Bellwether."""

FIELDS = ("level", "message", "short_message", "check", "action", "precedence")


def clean(component):
    """Returns the name of a component as the server takes it."""
    return component.replace(" ", "-")


def ranked(statuses):
    """Returns sorted statuses as StatusHandler shows them: critical ones first."""
    found = [one for one in statuses if one[1].approved_critical_component]
    found += [one for one in statuses if not one[1].approved_critical_component]
    return [
        [clean(name), "LEVEL_" + one.status.upper(), one.message.strip() and one.message]
        for name, one in found
    ]


def others(ranks):
    """Returns the number of statuses that are named besides the winner."""
    return len([one for one in ranks[1:] if one[1] != "LEVEL_ACTIVE"])


def actions(statuses):
    """Returns the number of statuses with an action."""
    return sum(one.action is not None for _, one in statuses)


def fields(statuses):
    """Returns every field of the statuses, in an order of their own."""
    reports = [
        {
            "level": "LEVEL_" + one.status.upper(),
            "message": one.message,
            "short_message": one.short_message or "",
            "check": one.check or "",
            "action": one.action or "",
            "precedence": int(one.approved_critical_component),
            "labels": {"running": one.running} if one.running else {},
        }
        for _, one in statuses
    ]
    return fields_shown(reports)


def fields_shown(reports):
    """Returns every field of the reports that the server has, in the same order."""
    return sorted(
        [str(one[name]) for name in FIELDS] + [one["labels"].get("running", "")] for one in reports
    )


def ranked_shown(explained):
    """Returns the unit and the words of each contribution, the winner first."""
    found = ([explained["winner"]] if explained["winner"] else []) + explained["beaten"]
    return [
        (one["ref"]["unit"], [one["ref"]["component"], one["level"], one["message"]])
        for one in found
    ]
