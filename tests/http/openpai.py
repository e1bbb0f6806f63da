"""OpenPAI's Secrets of users, groups and tokens."""
import base64
import hashlib
import json

USERS, GROUPS, TOKENS = "pai-user-v2", "pai-group", "pai-user-token"


def hexed(name):
    return name.encode().hex()


def encoded(data):
    return {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}


def secret(namespace, name, data):
    return {"kind": "Secret", "apiVersion": "v1", "type": "Opaque",
            "metadata": {"name": name, "namespace": namespace}, "data": encoded(data)}


def password_hash(user, password):
    salt = hashlib.md5(user.encode()).hexdigest().encode()
    return hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 10000, 64).hex()


def user_object(name, password, groups, extension="{}"):
    data = {"username": name, "email": f"{name}@example.com", "grouplist": json.dumps(groups),
            "extension": extension}
    if password:
        data["password"] = password_hash(name, password)
    return secret(USERS, hexed(name), data)


def group_object(name, acls):
    return secret(GROUPS, hexed(name), {"groupname": name, "description": "", "externalName": "",
                                        "extension": json.dumps({"acls": acls})})


def tokens_object(user, tokens):
    return secret(TOKENS, hexed(user), {f"id-{i}": t for i, t in enumerate(tokens)})
