"""Writes one row after another until the named file is there, and tells when each
was sent and acknowledged; or tells which keys a table has. In a container with
Cassandra's image."""
import json
import os
import socket
import sys
import time

sys.path.insert(0, os.environ["CASSANDRA_HOME"] + "/pylib")
from cassandra.cluster import Cluster  # noqa: E402

cluster = Cluster([socket.gethostbyname(socket.gethostname())], connect_timeout=60)
session = cluster.connect()
session.default_timeout = 30
if sys.argv[1] == "keys":
    print(json.dumps(sorted(row[0] for row in session.execute("SELECT key FROM %s.rows" % sys.argv[2]))))
    sys.exit()
keyspace, copies, stop = sys.argv[1:]
session.execute("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': %s}" % (keyspace, copies))
session.execute("CREATE TABLE IF NOT EXISTS %s.rows (key int PRIMARY KEY, value text)" % keyspace)
insert = session.prepare("INSERT INTO %s.rows (key, value) VALUES (?, ?)" % keyspace)
sent, acknowledged = [], []
while not os.path.exists(stop):
    sent.append(round(time.time(), 3))
    try:
        session.execute(insert, (len(sent) - 1, "value %d" % len(sent)))
        acknowledged.append(round(time.time(), 3))
    except Exception:
        acknowledged.append(0)  # it may be there or not
    if len(sent) == 1:
        open(stop + ".begun", "w").close()
    time.sleep(0.1)
print(json.dumps({"sent": sent, "acknowledged": acknowledged}))
cluster.shutdown()
