"""Needs as texts and as messages, and their way to the server and back."""

import os
import unittest

from server import ServerCase

from bellwether_client import need, outside
from bellwether_client._needs import needs, text_of

#: Texts with what they mean: namespace, application, levels.
TEXTS = [
    ("postgresql", (None, "postgresql", None)),
    ("infra/dns", ("infra", "dns", None)),
    ("dns=active", (None, "dns", ["LEVEL_ACTIVE"])),
    ("infra/dns=active,waiting", ("infra", "dns", ["LEVEL_ACTIVE", "LEVEL_WAITING"])),
    ("dns=Active, waiting,active", (None, "dns", ["LEVEL_ACTIVE", "LEVEL_WAITING"])),
    ("a.b_c-0", (None, "a.b_c-0", None)),
    ("a" * 253, (None, "a" * 253, None)),
]
#: Texts that are no need, with the advice.
REFUSED = [
    ("", "write NAME, NAMESPACE/NAME or NAME=LEVEL,LEVEL"),
    ("quota cpu of prod", r"or outside\('quota cpu of prod'\)"),
    ("/dns", "has an empty namespace: write NAME"),
    ("infra/", "names no application"),
    ("postgresql/0", "is a unit: an application is needed as a whole, postgresql"),
    ("a/b/dns", "names no application"),
    ("-dns", "names no application"),
    ("größe", "names no application"),
    ("a" * 254, "names no application"),
    ("dns=", "a level that does not exist: use error, blocked, maintenance, waiting, active"),
    ("dns=green", "a level that does not exist"),
    ("dns=active,", "a level that does not exist"),
    ("=active", "names no application"),
]
APP = {"namespace": "needs-" + os.urandom(8).hex(), "application": "web"}
UNIT = dict(APP, unit="web/0")


class Texts(unittest.TestCase):
    def test_a_text_is_the_need_of_an_application(self):
        for text, (namespace, application, levels) in TEXTS:
            with self.subTest(text):
                made = need(text)["application"]
                found = (made.get("namespace"), made["application"], made.get("levels"))
                self.assertEqual(found, (namespace, application, levels))
                self.assertEqual(need(text_of(need(text))), need(text))

    def test_any_other_text_is_refused_with_advice(self):
        for text, words in REFUSED:
            with self.subTest(text), self.assertRaisesRegex(ValueError, words):
                need(text)
        with self.assertRaisesRegex(TypeError, "a need is a text"):
            need(None)

    def test_something_outside_is_words(self):
        self.assertEqual(outside("quota cpu of prod"), {"outside": "quota cpu of prod"})
        self.assertEqual(text_of(outside("quota cpu of prod")), "quota cpu of prod")
        longest = "\u20ac" * 84 + "x"
        self.assertEqual(outside(longest)["outside"], longest)
        for words, advice in [
            ("", "has no words: say what is needed"),
            ("  ", "has no words"),
            ("a\nb", "control characters: leave them out"),
            ("a\x9bb", "control characters"),
            (longest + "x", "more than 253 bytes: say it shorter"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(ValueError, advice):
                outside(words)
        with self.assertRaisesRegex(TypeError, "a need outside is a text"):
            outside(5)

    def test_one_need_is_a_list_of_one_and_equal_ones_count_once(self):
        dns = {"application": {"application": "dns"}}
        for given, expected in [
            (None, []),
            ("dns", [dns]),
            (dns, [dns]),
            (("dns", dns, "dns=active"), [dns]),
            ([outside("quota"), outside("quota"), "dns"], [{"outside": "quota"}, dns]),
            (["dns=active,waiting", "dns=waiting,active"], [need("dns=active,waiting")]),
        ]:
            self.assertEqual(needs(given), expected)
        same = ["dns"] * 20 + ["app-{}".format(n) for n in range(7)]
        self.assertEqual(len(needs(same)), 8)
        with self.assertRaisesRegex(ValueError, "at most 8 needs, not 9: name those"):
            needs([*same, "more"])

    def test_a_message_may_have_the_empty_fields_of_an_answer(self):
        whole = {"namespace": "", "application": "dns", "levels": []}
        self.assertEqual(needs([{"application": whole, "outside": ""}]), [need("dns")])
        self.assertEqual(needs([{"application": None, "outside": "quota"}]), [outside("quota")])
        number = {"application": {"namespace": "a", "application": "0", "levels": ["LEVEL_ERROR"]}}
        self.assertEqual(needs(number), [number])

    def test_a_message_that_is_no_need_is_refused(self):
        for given, kind, words in [
            ({}, ValueError, "not one thing: give either `application` or `outside`"),
            ({"application": {"application": "a"}, "outside": "b"}, ValueError, "not one thing"),
            ({"application": {"application": "a", "levels": ["ACTIVE!"]}}, ValueError, "a level"),
            ({"application": {"application": ""}}, ValueError, "names no application"),
            ({"outside": "a\x00"}, ValueError, "control characters"),
            ({"application": "dns"}, TypeError, "is a message, not 'dns': use need"),
            ({"app": "dns"}, TypeError, "no field 'app'"),
            ({"application": {"name": "dns"}}, TypeError, "no field 'name'"),
            (5, TypeError, ""),
            ([5], TypeError, "a need is a text, as NAME"),
        ]:
            with self.subTest(given), self.assertRaisesRegex(kind, words):
                needs(given)

    def test_an_application_does_not_need_itself(self):
        own = {"namespace": "shop", "application": "web"}
        for given in ("web", "shop/web", "web=error", need("web")):
            with self.assertRaisesRegex(ValueError, "the application of the status itself"):
                needs([given], own)
        self.assertEqual(len(needs(["infra/web", "db"], own)), 2)
        with self.assertRaisesRegex(ValueError, "itself"):
            needs(["default/web"], {"namespace": "", "application": "web"})


class Calls(ServerCase):
    def shape(self, given):
        """Returns what a need means, whether or not the server has completed it."""
        [one] = needs(given)
        if "outside" in one:
            return one["outside"]
        application = dict({"namespace": APP["namespace"]}, **one["application"])
        levels = frozenset(application.get("levels", ["LEVEL_ACTIVE"]))
        return application["namespace"], application["application"], levels

    def test_needs_of_a_status_are_in_its_report_and_in_its_application(self):
        client = self.client()
        stated = [need("infra/dns=waiting,active"), outside("quota cpu of prod"), need("db")]
        status = {"level": "LEVEL_WAITING", "message": "for others", "needs": stated}
        client.report_status(status=status, **UNIT)
        expected = {self.shape(one) for one in stated}
        [record] = client.list_statuses(**UNIT)["statuses"]
        self.assertEqual({self.shape(one) for one in record["report"]["needs"]}, expected)
        application = client.get_application(**APP)["application"]
        self.assertEqual(application["needs_rest_count"], 0)
        self.assertEqual({self.shape(one["need"]) for one in application["needs"]}, expected)
        self.assertEqual({one["stated_by"]["unit"] for one in application["needs"]}, {"web/0"})
        causes = client.explain_application(**APP)["causes"]
        self.assertEqual({self.shape(one["need"]) for one in causes}, expected)

    def test_what_blocks_is_listed_by_pages(self):
        client = self.client()
        names = {"namespace": APP["namespace"] + "-pages"}
        for number in range(3):
            name = "app-{}".format(number)
            client.report_status(
                application=name,
                unit=name + "/0",
                status={"level": "LEVEL_WAITING", "needs": [outside("thing-{}".format(number))]},
                **names
            )

        def pages():
            listed, request = [], dict(names, page_size=2)
            while True:
                answer = client.list_blockers(**request)
                listed += answer["blockers"]
                request["page_token"] = answer["next_page_token"]
                if not request["page_token"]:
                    return listed

        found = pages()
        self.assertEqual({one["state"] for one in found}, {"CAUSE_STATE_OUTSIDE"})
        words = sorted(each["outside"] for one in found for each in one["objects"])
        self.assertEqual(words, ["thing-0", "thing-1", "thing-2"])
        self.assertEqual([one["frees_count"] for one in found], [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
