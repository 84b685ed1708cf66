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
		`sleep infinity # exec cassandra -f`:                                    "sleep",
		`trap "nodetool drain" TERM; exec docker-entrypoint.sh cassandra -f`:    "",
		`sysctl -w vm.max_map_count=1048575; exec /opt/cassandra/bin/cassandra`: "",
		`cp /tmp/x /etc/cassandra/`:                                             "",
	} {
		c := &Container{Command: []string{"/bin/bash", "-c", text}}
		if got, ok := runsClient(c); ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	for _, argv := range [][]string{{"sleep", "infinity"}, {"/usr/bin/tail", "-f", "/dev/null"}, {"cqlsh", "x"}} {
		c := &Container{Command: argv, Ports: []Port{{ContainerPort: 9042}}}
		if _, ok := runsClient(c); !ok {
			t.Errorf("%v: taken for the database", argv)
		}
	}
}
