"""Queries the node all the time until the named file is there, and tells how that
went, in a container with Cassandra's image."""
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
seen = {"queries": 0, "errors": 0, "longest": 0, "last": ""}
last = time.time()
while not os.path.exists(sys.argv[1]):
    try:
        session.execute("SELECT host_id FROM system.local")
        now = time.time()
        seen["queries"] += 1
        seen["longest"] = max(seen["longest"], now - last)
        last = now
        if seen["queries"] == 1:
            open(sys.argv[1] + ".begun", "w").close()
    except Exception as error:
        seen["errors"] += 1
        seen["last"] = str(error)
    time.sleep(0.2)
print(json.dumps(seen))
cluster.shutdown()
