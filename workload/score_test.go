package workload

import "testing"

// TestRunsClient tells a server's script from a client's by what it runs, not
// by what it mentions.
func TestRunsClient(t *testing.T) {
	for text, want := range map[string]string{
		`until cqlsh -e x; do sleep 5; done`:                                    "sleep",
		`cqlsh my-cassandra -f /schema.cql`:                                     "cqlsh",
		`cqlsh cassandra 9042 -e "describe cluster"`:                            "cqlsh",
		`while true; do nodetool snapshot -t $(date +%s); sleep 3600; done`:     "sleep",
		`X=1 exec nodetool status`:                                              "nodetool",
		`if ! /opt/cassandra/bin/nodetool info; then exit 1; fi`:                "nodetool",
		`/run-cassandra.sh && tail -f /x.log`:                                   "",
		`trap "nodetool drain" TERM; exec docker-entrypoint.sh cassandra -f`:    "",
		`sysctl -w vm.max_map_count=1048575; exec /opt/cassandra/bin/cassandra`: "",
		`cp /tmp/x /etc/cassandra/`:                                             "",
	} {
		c := &Container{Command: []string{"/bin/bash", "-c", text}}
		if got, _ := runsClient(c); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
		c.Ports = []Port{{ContainerPort: 9042}}
		if got, _ := runsClient(c); got != "" {
			t.Errorf("%s, on a server's port: got %q", text, got)
		}
	}
	for _, argv := range [][]string{{"sleep", "infinity"}, {"/usr/bin/tail", "-f", "/dev/null"}, {"cqlsh", "x"}} {
		c := &Container{Command: argv, Ports: []Port{{ContainerPort: 9042}}}
		if _, ok := runsClient(c); !ok {
			t.Errorf("%v: taken for the database", argv)
		}
	}
}
