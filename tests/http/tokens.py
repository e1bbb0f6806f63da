"""Valid and invalid tokens, signed with HS256 like those of OpenPAI."""
import base64
import hashlib
import hmac
import json
import os
import time

SECRET = b"a secret of the tests, long enough"
HEADER = {"alg": "HS256", "typ": "JWT"}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def part(value):
    """Encode a part of a token; text is not converted."""
    return b64(value.encode() if isinstance(value, str) else
               json.dumps(value, separators=(",", ":")).encode())


def sign(header, payload, secret=SECRET, digest=hashlib.sha256):
    text = f"{part(header)}.{part(payload)}"
    return f"{text}.{b64(hmac.new(secret, text.encode(), digest).digest())}"


def claims(user="alice", application=False, lifetime=3600, **more):
    now = int(time.time())
    out = {"username": user, "application": application, "jobSpecific": False,
           "encodedFrameworkName": "", "iat": now}
    if not application:
        out["exp"] = now + lifetime
    out.update(more)
    return {k: v for k, v in out.items() if v is not ...}


def token(user="alice", application=False, secret=SECRET, **more):
    return sign(HEADER, claims(user, application, **more), secret)


def token_id(text):
    return hashlib.sha256(text.encode()).hexdigest()


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


def basic(user, text):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{text}".encode()).decode()}


def write_file(directory, name, content):
    path = os.path.join(directory, name)
    with open(path, "wb") as f:
        f.write(content if isinstance(content, bytes) else content.encode())
    os.chmod(path, 0o600)
    return path
