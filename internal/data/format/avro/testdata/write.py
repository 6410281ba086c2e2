"""Writes named*.avro by fastavro, one for each codec: named types used again, recursion, namespaces and unions of logical
types. named.jsonl has what fastavro reads from it, as JSON lines."""
import datetime, decimal, json, uuid
import fastavro

utc = datetime.timezone.utc
dec = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
date = {"type": "int", "logicalType": "date"}
milli = {"type": "long", "logicalType": "timestamp-millis"}
schema = {"type": "record", "name": "Row", "namespace": "shop", "fields": [
    {"name": "net", "type": {"type": "record", "name": "Money", "namespace": "shop.types", "fields": [
        {"name": "amount", "type": dec}, {"name": "day", "type": date}]}},
    {"name": "gross", "type": "shop.types.Money"},
    {"name": "all", "type": {"type": "array", "items": "shop.types.Money"}},
    {"name": "by", "type": {"type": "map", "values": ["null", "shop.types.Money", date]}},
    {"name": "a", "type": {"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 15, "scale": 3}},
    {"name": "b", "type": "F"},
    {"name": "u", "type": ["null", date, dec, {"type": "string", "logicalType": "uuid"}]},
    {"name": "t", "type": ["null", milli, date]},
    {"name": "d", "type": ["null", date, milli]},
    {"name": "two", "type": [
        {"type": "record", "name": "A", "fields": [{"name": "x", "type": dec}]},
        {"type": "record", "name": "B", "fields": [{"name": "x", "type": dict(dec, scale=5)}]}]},
    {"name": "tree", "type": {"type": "record", "name": "Tree", "fields": [
        {"name": "at", "type": date}, {"name": "next", "type": ["null", "Tree"]}, {"name": "price", "type": ["F", milli]}]}},
]}

def money(i):
    return {"amount": decimal.Decimal(1234 + i) / 100, "day": datetime.date(2024, 5, 6) + datetime.timedelta(days=i)}

def tree(i, depth):
    return {"at": datetime.date(1960, 1, 1) + datetime.timedelta(days=i), "next": tree(i + 1, depth - 1) if depth else None,
            "price": decimal.Decimal(i) / 1000 if i % 2 else datetime.datetime(2024, 1, 2, 3, 4, 5, 678000, utc)}

rows = []
for i in range(60):
    day, time = datetime.date(2000, 2, 29) + datetime.timedelta(days=i), datetime.datetime(1969, 12, 31, 23, 0, i % 60, 500000, utc)
    rows.append({
        "net": money(i), "gross": money(i + 1), "all": [money(j) for j in range(i % 4)],
        "by": {"none": None, "money": money(-i), "day": day},
        "a": decimal.Decimal(i - 100) / 1000, "b": decimal.Decimal(i) / 8,
        "u": [None, day, decimal.Decimal(i) / 4, uuid.UUID(int=i)][i % 4],
        "t": [None, time, day][i % 3], "d": [None, day, None][i % 3],
        "two": ("shop.A", {"x": decimal.Decimal(i) / 100}) if i % 2 else ("shop.B", {"x": decimal.Decimal(i) / 100000}),
        "tree": tree(i, i % 5),
    })

def plain(v):
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    if isinstance(v, list):
        return [plain(x) for x in v]
    if isinstance(v, datetime.datetime):
        fraction = f".{v.microsecond:06d}".rstrip("0") if v.microsecond else ""
        return v.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"
    if isinstance(v, (datetime.date, uuid.UUID)):
        return str(v)
    if isinstance(v, decimal.Decimal):
        return float(v)
    return v

for name, codec in (("named", "deflate"), ("named-bzip2", "bzip2"), ("named-xz", "xz"), ("named-zstandard", "zstandard")):
    with open(f"{name}.avro", "wb") as out:
        fastavro.writer(out, fastavro.parse_schema(schema), rows, codec=codec, sync_interval=2000, sync_marker=bytes(range(16)))
with open("named.avro", "rb") as file, open("named.jsonl", "w") as out:
    for row in fastavro.reader(file):
        out.write(json.dumps(plain(row)) + "\n")
