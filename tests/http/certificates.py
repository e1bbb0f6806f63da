"""Certificates for servers of tests: an authority, an intermediate one, and what that one signs.  Each
is made once per process."""
import functools
import os
import subprocess
import tempfile

EC = ("EC", "ec_paramgen_curve:prime256v1")


def openssl(folder, *arguments):
    return subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True).stdout


def write(folder, files):
    """Writes {name: bytes}; only the owner may read them."""
    for name, data in files.items():
        with open(os.open(os.path.join(folder, name), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as f:
            f.write(data)


def read(folder, *names):
    """The bytes of each of these files."""
    found = []
    for name in names:
        with open(os.path.join(folder, name), "rb") as f:
            found.append(f.read())
    return found


def sign(folder, name, subject, authority, serial, days, extensions, kind=EC):
    """Creates NAME.key, and NAME.crt signed by the authority."""
    openssl(folder, "genpkey", "-algorithm", kind[0], "-pkeyopt", kind[1], "-out", f"{name}.key")
    openssl(folder, "req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
    write(folder, {f"{name}.ext": extensions})
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.crt", "-CAkey", f"{authority}.key",
            "-set_serial", str(serial), "-days", days, "-extfile", f"{name}.ext", "-out", f"{name}.crt")


def make_authority(folder, name):
    """Creates NAME.crt, which is signed by its own NAME.key."""
    openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", EC[1], "-nodes", "-days", "2", "-subj", "/CN=Test CA",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", f"{name}.key", "-out", f"{name}.crt")


@functools.cache
def authorities():
    with tempfile.TemporaryDirectory() as folder:
        make_authority(folder, "ca")
        sign(folder, "middle", "/CN=Test Intermediate CA", "ca", 2, "2",
             b"basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n"
             b"subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n")
        names = ("ca.crt", "ca.key", "middle.crt", "middle.key")
        return dict(zip(names, read(folder, *names)))


@functools.cache
def signed(serial, days, kind):
    """A certificate with its chain, and its key."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder, authorities())
        sign(folder, "leaf", "/CN=localhost", "middle", serial, days,
             b"subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\nauthorityKeyIdentifier=keyid\n", kind)
        leaf, middle, key = read(folder, "leaf.crt", "middle.crt", "leaf.key")
        return leaf + middle, key


def make_authorities(folder):
    """Creates ca.crt, and middle.crt signed by it, with their keys."""
    write(folder, authorities())


def make_certificate(folder, name, serial, days="60", kind=EC):
    """Creates name.crt for localhost, 127.0.0.1 and [::1] with its chain, and name.key."""
    chain, key = signed(serial, days, kind)
    write(folder, {f"{name}.crt": chain, f"{name}.key": key})


def make_certificates(folder):
    """ca.crt, and server.crt with its key."""
    make_authorities(folder)
    make_certificate(folder, "server", 1)
