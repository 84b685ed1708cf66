package management

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// names are what the messages of each port are called in the metrics.
var names = [...]string{"restart", "churn", "executors", "status", "schedulers", "departed", "statistics"}

// metrics count what comes and goes.
type metrics struct {
	messages       [len(names)]atomic.Int64
	pushed, failed atomic.Int64
}

func (m *metrics) count(port int) { m.messages[port-PortRestart].Add(1) }

// Handler serves /metrics, for Prometheus, and /healthz.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		s.write(w)
	})
	return mux
}

func (s *Server) write(w io.Writer) {
	fmt.Fprintln(w, "# HELP stategraft_management_messages_total Messages that Anna and Cloudburst sent to the management.")
	fmt.Fprintln(w, "# TYPE stategraft_management_messages_total counter")
	for i, name := range names {
		fmt.Fprintf(w, "stategraft_management_messages_total{kind=%q} %d\n", name, s.metrics.messages[i].Load())
	}
	fmt.Fprintln(w, "# HELP stategraft_management_lists_total Lists of executors that KVS threads asked for, by what became of them.")
	fmt.Fprintln(w, "# TYPE stategraft_management_lists_total counter")
	fmt.Fprintf(w, "stategraft_management_lists_total{result=\"sent\"} %d\n", s.metrics.pushed.Load())
	fmt.Fprintf(w, "stategraft_management_lists_total{result=\"failed\"} %d\n", s.metrics.failed.Load())
	for _, l := range []struct {
		kind string
		of   *list
	}{{"executors", s.executors}, {"schedulers", s.schedulers}} {
		fmt.Fprintf(w, "# HELP stategraft_management_%[1]s Addresses of %[1]s in the DNS, at the last answer.\n", l.kind)
		fmt.Fprintf(w, "# TYPE stategraft_management_%[1]s gauge\nstategraft_management_%[1]s %[2]d\n", l.kind, l.of.length())
	}
}

// headerLimit is for the headers of a request of the metrics.
const headerLimit = 10 * time.Second
