"""Hooks of schemathesis: each request has the next of many tokens.

A credential of the admin API has 50 calls in a second. Further calls are answered with 429, which
is documented, but would hide what the call itself answers.
"""

import itertools
import os

import schemathesis

TOKENS = itertools.cycle(os.environ["TEST_TOKENS"].split(","))


@schemathesis.hook
def before_call(context, case, kwargs):
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {next(TOKENS)}"}
