#!/usr/bin/env python3
"""Checks what public schemas do not: Agents against our own definition, and that a second namespace is a whole of its own.

usage: check.py agents CRD FILE...
       check.py namespace NAME IMAGE FIRST SECOND      both as Kustomize makes them; IMAGE is what all containers of SECOND are of
"""
import sys

import jsonschema
import yaml

CLUSTER_WIDE = {"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}


def load(path):
    with open(path, encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document]


def strict(schema):
    """Returns the schema with no room for fields that the API server would drop, and with null where it takes that."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items() if key != "nullable"}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return {"anyOf": [made, {"type": "null"}]} if schema.get("nullable") is True else made


def agents(definition, *files):
    (definition,) = load(definition)
    (version,) = definition["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    # These three are everybody's, and not in the definition.
    schema["properties"].update(apiVersion={"const": "coop.dev/v1alpha1"}, kind={"const": "Agent"}, metadata={"type": "object"})
    checked = 0
    for file in files:
        for document in load(file):
            if document["kind"] == "Agent":
                error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(document))
                if error:
                    yield f"{file}: {error.json_path}: {error.message}"
                checked += 1
    if checked < len(files):
        yield "there is a file without an Agent"


def texts(value, path=""):
    if isinstance(value, dict):
        for key, one in value.items():
            yield from texts(one, f"{path}.{key}")
    elif isinstance(value, list):
        for one in value:
            yield from texts(one, path)
    elif isinstance(value, str):
        yield path, value


def namespace(name, image, first, second):
    first, second = load(first), load(second)
    (old,) = {one["metadata"]["name"] for one in first if one["kind"] == "Namespace"}
    wide = lambda objects: {(one["kind"], one["metadata"]["name"]) for one in objects if one["kind"] in CLUSTER_WIDE}
    for kind, called in sorted(wide(first) & wide(second)):
        yield f"{kind} {called} is the first one's too"
    for kind in ("Namespace", "ClusterRole", "ClusterRoleBinding"):
        if sum(one["kind"] == kind for one in second) != 1:
            yield f"there is not one {kind}"
    there = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in second}
    if len({key[0::2] for key in there}) != len({(one["kind"], one["metadata"]["name"]) for one in first}) - 1:
        yield "it does not have all that the first has, but the definition"
    for one in second:
        what = f"{one['kind']} {one['metadata']['name']}"
        own = None if one["kind"] in CLUSTER_WIDE else name
        if one["metadata"].get("namespace") != own:
            yield f"{what} is in {one['metadata'].get('namespace')}, not in {own}"
        if "roleRef" in one:
            role = one["roleRef"]
            if (role["kind"], own if role["kind"] == "Role" else None, role["name"]) not in there:
                yield f"{what} gives a role that is not there: {role['name']}"
            for subject in one["subjects"]:
                if (subject["kind"], subject.get("namespace"), subject["name"]) not in there:
                    yield f"{what} is for somebody who is not there: {subject}"
        if one["kind"] == "Deployment":
            pod = one["spec"]["template"]["spec"]
            if ("ServiceAccount", name, pod["serviceAccountName"]) not in there:
                yield f"{what} has no account"
            for container in pod["containers"]:
                if container["image"] != image:
                    yield f"{what} is of {container['image']}, not of {image}"
        for path, text in texts(one):
            # Names such as coop-fleet.coop.svc have it in the middle.
            if text == old or f".{old}." in f"{text}.".replace(",", ".,"):
                yield f"{what}{path}: {text!r} is the first one's namespace"
            if "localhost/" in text:
                yield f"{what}{path}: {text!r} is the first one's image"
    # The operator's Lease is found by its name, which is not said, so it is the usual one.
    leases = [rule["resourceNames"] for one in second if one["kind"] == "Role" for rule in one["rules"] if "resourceNames" in rule]
    if leases != [["coop-operator"]]:
        yield f"the operator may not hold its lease: {leases}"


wrong = list({"agents": agents, "namespace": namespace}[sys.argv[1]](*sys.argv[2:]))
for line in wrong:
    print(line, file=sys.stderr)
sys.exit(1 if wrong else 0)
