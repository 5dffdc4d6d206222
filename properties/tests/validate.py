"""validate.py SCHEMA FILE...: of each file, how many errors it has and the first of them. The schema leaves nothing open: every object
has all of its keys, but where these are names, and no other."""
import json, pathlib, sys, jsonschema

def parts(schema):
    if isinstance(schema, dict):
        yield schema
        for part in schema.values(): yield from parts(part)
    elif isinstance(schema, list):
        for part in schema: yield from parts(part)

path = pathlib.Path(sys.argv[1]).resolve()
schema = json.loads(path.read_text())
jsonschema.Draft202012Validator.check_schema(schema)
for part in parts(schema):
    if 'properties' in part: assert set(part['required']) == set(part['properties']), part
    if 'properties' in part or 'patternProperties' in part: assert part['additionalProperties'] is False, part
validator = jsonschema.Draft202012Validator(schema, resolver=jsonschema.RefResolver(path.as_uri(), schema))
for name in sys.argv[2:]:
    errors = ['/'.join(map(str, e.absolute_path)) + ': ' + e.message[:200] for e in validator.iter_errors(json.loads(pathlib.Path(name).read_text()))]
    print(name, len(errors), *errors[:3])
