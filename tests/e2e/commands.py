"""submit -- COMMAND to a server on a real API server: its Framework, and its code."""
import os
import subprocess
import tempfile

from cli import cli
from harness import framework_name

WORDS = [b"printf", b"%s\\0", b"it's", b"$HOME $(id) $$", b"a\n\n b\n", b"<% $secrets.x %>", b"\xff\r\x7f", "\u2028\u00e9".encode(), b"$(PAI_JOB_NAME)"]


def test_commands_arrive_in_frameworks_with_their_code(check, cluster):
    with cluster.serve("--default-image", "team/default:1") as server, tempfile.TemporaryDirectory() as here:
        with open(os.path.join(here, "train.py"), "w", encoding="utf-8") as f:
            f.write("print()\n")
        code, out, err = cli("submit", "--server", f"http://127.0.0.1:{server.port}", "--name", "of-words", "--gpus", "1", "--", *map(os.fsdecode, WORDS), cwd=here)
        check.equal("submitted", (code, out.endswith("~of-words\n")), (0, True))
        name = framework_name("of-words")
        framework = cluster.get("Framework", name)
        pod = framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
        app = next(c for c in pod["containers"] if c["name"] == "app")
        check.equal("image and resources", (app["image"], app["resources"]["limits"]["cpu"], app["resources"]["limits"]["memory"]),
                    ("team/default:1", 4, "8192Mi"))
        check.equal("where it begins", app["workingDir"], "/workspace")
        kept = "code-" + framework["metadata"]["labels"]["rest-lit/code"]
        check.ok("its code", cluster.get("ConfigMap", kept) and cluster.get("ConfigMap", kept + "-0"), kept)
        command = next(v["value"] for v in pod["initContainers"][0]["env"] if v["name"] == "USER_CMD").replace("$$", "$")
        got = subprocess.run(["sh", "-c", command], capture_output=True, check=False).stdout.split(b"\0")[:-1]
        check.equal("its words", got, WORDS[2:])
        cluster.delete("Framework", name)
        for one in (kept + "-0", kept):
            cluster.delete("ConfigMap", one)
