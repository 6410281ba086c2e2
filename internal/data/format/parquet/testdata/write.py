"""Writes the Parquet files of the tests, and what pyarrow reads from them as JSON lines."""
import base64, datetime, decimal, json
import pyarrow as pa, pyarrow.parquet as pq

n = 300
utc = datetime.timezone.utc
table = pa.table({
    "id": pa.array(range(n), pa.int64()),
    "name": pa.array([None if i % 7 == 0 else f"na\tme \\ {i} \u00e4\n" for i in range(n)]),
    "x": pa.array([i / 3 for i in range(n)]),
    "f": pa.array([i / 4 for i in range(n)], pa.float32()),
    "b": pa.array([None if i % 11 == 0 else i % 2 == 0 for i in range(n)]),
    "u8": pa.array([i % 256 for i in range(n)], pa.uint8()),
    "u64": pa.array([2**64 - 1 - i for i in range(n)], pa.uint64()),
    "day": pa.array([datetime.date(1960, 1, 1) + datetime.timedelta(days=100 * i) for i in range(n)]),
    "ts": pa.array([datetime.datetime(1969, 12, 31, 23, 59, 59) + datetime.timedelta(milliseconds=7 * i) for i in range(n)], pa.timestamp("us", "UTC")),
    "local": pa.array([datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=i) for i in range(n)], pa.timestamp("ms")),
    "dec": pa.array([decimal.Decimal(i) / 100 - 1 for i in range(n)], pa.decimal128(10, 2)),
    "tags": pa.array([[None if j == 1 else f"t{j}" for j in range(i % 4)] if i % 5 else None for i in range(n)]),
    "st": pa.array([{"a": i, "b": [{"c": j} for j in range(i % 3)]} if i % 6 else None for i in range(n)]),
    "m": pa.array([[(f"k{j}", j) for j in range(i % 3)] for i in range(n)], pa.map_(pa.string(), pa.int32())),
    "bin": pa.array([bytes([i % 256, 0]) for i in range(n)]),
})

def fraction(t):
    return ("." + f"{t.microsecond:06d}".rstrip("0")) if t.microsecond else ""

def plain(v, name):
    if name == "m":
        return dict(v)
    if isinstance(v, bytes):
        return base64.b64encode(v).decode()
    if isinstance(v, datetime.datetime):
        return v.strftime("%Y-%m-%dT%H:%M:%S") + fraction(v) + ("Z" if v.tzinfo else "")
    if isinstance(v, datetime.date):
        return v.isoformat()
    if isinstance(v, decimal.Decimal):
        return float(v)
    return v

for name, codec, version in (("snappy", "snappy", "1.0"), ("zstd", "zstd", "2.0"), ("gzip", "gzip", "1.0"), ("none", "none", "2.0"),
                             ("lz4", "lz4", "1.0"), ("lz4-2", "lz4", "2.0"), ("brotli", "brotli", "2.0")):
    pq.write_table(table, f"{name}.parquet", row_group_size=100, compression=codec, data_page_version=version, data_page_size=1000)
with open("rows.jsonl", "w") as out:
    for row in pq.read_table("snappy.parquet").to_pylist():
        out.write(json.dumps({k: plain(v, k) for k, v in row.items()}, ensure_ascii=False) + "\n")

# Booleans in runs, pages without values, which pyarrow writes in version 2.0, and a dictionary
# without entries.
runs = pa.table({
    "flag": pa.array([i % 97 < 40 if i < 200 else i % 3 == 0 for i in range(300)]),
    "maybe": pa.array([None if i % 5 == 0 else i % 60 < 25 for i in range(300)]),
    "flags": pa.array([[j < i % 13 for j in range(i % 20)] if i % 4 else None for i in range(300)]),
    "list": pa.array([[None, [], None, [None], [1, 2, None], [5]][i * i % 6] for i in range(300)], pa.list_(pa.int64())),
    "nulls": pa.array([[None, None]] * 300, pa.list_(pa.string())),
})
for name, version in (("runs", "1.0"), ("runs-2", "2.0")):
    pq.write_table(runs, f"{name}.parquet", compression="zstd", data_page_version=version, data_page_size=10, write_batch_size=7)
with open("runs.jsonl", "w") as out:
    for row in runs.to_pylist():
        out.write(json.dumps(row) + "\n")
