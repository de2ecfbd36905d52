from __future__ import annotations

import pytest

from tidings.gateway.http.page.bundle import CannotBundle, bundle, join_styles

MODULES = {
    "/a/main.js": "import { twice as two } from './parts/more.js';\n"
    "import {\n  half,\n} from '/sdk/x.js';\nhalf(two(4));\n",
    "/a/parts/more.js": "// A comment goes away.\nexport const twice = (n) => n * 2; // so does this\n",
    "/sdk/x.js": "export { half } from './y.js';\n",
    "/sdk/y.js": "/**\n * Of one half.\n */\nexport function half(n) {\n  return n / 2;\n}\n",
}


def test_modules_become_one_script_in_the_order_of_their_imports() -> None:
    made = bundle(MODULES, "/a/main.js")
    assert made == (
        "'use strict';\n"
        "const m0 = (() => {\nconst twice = (n) => n * 2;\nreturn { twice };\n})();\n"
        "const m1 = (() => {\nfunction half(n) {\nreturn n / 2;\n}\nreturn { half };\n})();\n"
        "const m2 = (() => {\nreturn { half: m1.half };\n})();\n"
        "const m3 = (() => {\nconst { twice: two } = m0;\nconst { half } = m2;\nhalf(two(4));\nreturn {  };\n})();\n"
    )


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
