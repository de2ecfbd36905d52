from __future__ import annotations

import pytest

from tidings.gateway.http.page.bundle import FIRST, LATER, CannotBundle, bundle, join_styles

MODULES = {
    "/a/main.js": "import { twice as two } from './parts/more.js';\n"
    "import {\n  half,\n} from '/sdk/x.js';\nhalf(two(4));\n",
    "/a/parts/more.js": "// A comment goes away.\nexport const twice = (n) => n * 2; // so does this\n",
    "/sdk/x.js": "export { half } from './y.js';\n",
    "/sdk/y.js": "/**\n * Of one half.\n */\nexport function half(n) {\n  return n / 2;\n}\n",
}


def test_modules_become_one_script_in_the_order_of_their_imports() -> None:
    made = bundle(MODULES, "/a/main.js")
    assert made.later == ""
    assert made.first == (
        "'use strict';\n"
        "const m0 = (() => {\nconst twice = (n) => n * 2;\nreturn { twice };\n})();\n"
        "const m1 = (() => {\nfunction half(n) {\nreturn n / 2;\n}\nreturn { half };\n})();\n"
        "const m2 = (() => {\nreturn { half: m1.half };\n})();\n"
        "const m3 = (() => {\nconst { twice: two } = m0;\nconst { half } = m2;\nhalf(two(4));\nreturn {  };\n})();\n"
    )


def test_modules_that_are_asked_for_later_are_a_script_of_their_own_and_run_once() -> None:
    more = {
        "/a/main.js": "import { twice } from './parts/more.js';\nconst open = () => import('./parts/rare.js');\n",
        "/a/parts/rare.js": "import { twice } from './more.js';\nimport { half } from '/sdk/y.js';\n"
        "export const show = () => import('./rarer.js').then(() => half(twice(1)));\n",
        "/a/parts/rarer.js": "export const end = 1;\n",
    }
    made = bundle(MODULES | more, "/a/main.js")
    assert made.first == (
        "'use strict';\n"
        "const m0 = (() => {\nconst twice = (n) => n * 2;\nreturn { twice };\n})();\n"
        f"const m1 = (() => {{\nconst {{ twice }} = m0;\nconst open = () => import('{LATER}').then((all) => all.m3);\n"
        "return {  };\n})();\n"
        "export { m0 };\n"
    )
    assert made.later.startswith(f"'use strict';\nimport {{ m0 }} from '{FIRST}';\nconst m2 = ")
    assert f"import('{LATER}').then((all) => all.m4)" in made.later
    assert made.later.endswith("export { m2, m3, m4 };\n")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"/sdk/y.js": "import { twice } from '../a/main.js';\n"}, "import each other"),
        ({"/sdk/x.js": "import { half } from './z.js';\n"}, "does not exist"),
        ({"/sdk/y.js": "export default 1;\n"}, "another form"),
        ({"/sdk/y.js": "import './z.js';\n"}, "another form"),
    ],
)
def test_a_module_that_breaks_a_rule_is_named(changed: dict[str, str], said: str) -> None:
    with pytest.raises(CannotBundle, match=said):
        bundle(MODULES | changed, "/a/main.js")


def test_style_sheets_lose_comments_and_indents() -> None:
    assert join_styles(["/* x */\na {\n  color: red;\n}\n", "b { }\n"]) == "\na {\ncolor: red;\n}\nb { }\n"
