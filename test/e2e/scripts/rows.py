"""Writes and reads rows, in a container with Cassandra's image."""
import hashlib
import json
import os
import socket
import sys

sys.path.insert(0, os.environ["CASSANDRA_HOME"] + "/pylib")
from cassandra.auth import PlainTextAuthProvider  # noqa: E402
from cassandra.cluster import Cluster  # noqa: E402
from cassandra.concurrent import execute_concurrent_with_args  # noqa: E402

action, keyspace = sys.argv[1:3]
table = keyspace + ".rows"
user = os.environ.get("CQL_USER")
cluster = Cluster([socket.gethostbyname(socket.gethostname())], connect_timeout=20,
                  auth_provider=PlainTextAuthProvider(user, os.environ["CQL_PASSWORD"]) if user else None)
session = cluster.connect()
session.default_timeout = 60
if action == "write":
    copies, first, count, size = (int(a) for a in sys.argv[3:])
    session.execute("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': %d}" % (keyspace, copies))
    session.execute("CREATE TABLE IF NOT EXISTS %s (key int PRIMARY KEY, value text)" % table)
    insert = session.prepare("INSERT INTO %s (key, value) VALUES (?, ?)" % table)
    execute_concurrent_with_args(session, insert, ((k, "value %d " % k + "x" * (k % 100) + os.urandom(size // 2).hex()) for k in range(first, first + count)), concurrency=64)
else:
    total, count = hashlib.sha256(), 0
    for key, value in sorted(session.execute("SELECT key, value FROM %s" % table)):
        total.update(("%d=%s\n" % (key, value)).encode())
        count += 1
    print(json.dumps({"count": count, "checksum": total.hexdigest()}))
cluster.shutdown()
