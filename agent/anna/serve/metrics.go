package serve

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/stategraft/stategraft/agent/anna/membership"
	"github.com/stategraft/stategraft/api/node"
)

// exposition writes metrics as Prometheus reads them.
type exposition struct{ strings.Builder }

// write writes one metric; labels are name="value".
func (e *exposition) write(name, kind, help string, value float64, labels ...string) {
	e.family(name, kind, help)
	e.sample(name, value, labels...)
}

func (e *exposition) family(name, kind, help string) {
	fmt.Fprintf(e, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (e *exposition) sample(name string, value float64, labels ...string) {
	if len(labels) > 0 {
		name += "{" + strings.Join(labels, ",") + "}"
	}
	fmt.Fprintf(e, "%s %s\n", name, strconv.FormatFloat(value, 'f', -1, 64))
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

const (
	gauge   = "gauge"
	counter = "counter"
)

// writeMetrics writes what there is to tell, by the pod's role.
func (s *server) writeMetrics(w io.Writer) {
	e := &exposition{}
	changed := s.watch.get()
	e.write("stategraft_anna_config_changed", gauge, "Whether the ConfigMap is another than the database was started with.", truth(changed != nil && changed.Current != ""))
	if s.holdsData() {
		s.backupMetrics(e)
		s.replayMetrics(e)
		s.announceMetrics(e)
	}
	if s.departer != nil {
		departMetrics(e, s.departer.Counts())
	}
	_, _ = io.WriteString(w, e.String()) // to a client that may have gone
}

func (s *server) backupMetrics(e *exposition) {
	_, err := s.shelf.current()
	e.write("stategraft_anna_storage_configured", gauge, "Whether the configuration of the storage can be used.", truth(err == nil))
	e.write("stategraft_anna_node_asked", gauge, "Whether the node can be asked for its keys.", truth(s.engine.ready() == nil))
	e.write("stategraft_anna_backup_running", gauge, "Whether a backup is made.", truth(s.turn.backup() != nil))
	s.jobs.mutex.Lock()
	counts, progress := s.jobs.counts, s.jobs.progress
	s.jobs.mutex.Unlock()
	e.family("stategraft_anna_backups_total", counter, "Backups that this sidecar has made, by result.")
	e.sample("stategraft_anna_backups_total", float64(counts.succeeded), `result="succeeded"`)
	e.sample("stategraft_anna_backups_total", float64(counts.failed), `result="failed"`)
	e.write("stategraft_anna_backup_keys_read", gauge, "Keys that the present or last backup has read.", float64(progress.Keys))
	if last := counts.last; !last.Finished.IsZero() {
		e.write("stategraft_anna_last_backup_timestamp_seconds", gauge, "When the last backup was complete.", float64(last.Finished.Unix()))
		e.write("stategraft_anna_last_backup_keys", gauge, "Keys of the last backup.", float64(last.Keys))
		e.write("stategraft_anna_last_backup_bytes", gauge, "Bytes of keys and values of the last backup.", float64(last.Bytes))
		e.write("stategraft_anna_last_backup_missing_keys", gauge, "Keys that the node listed and that the last backup lacks.", float64(last.Missing.Count))
	}
}

func (s *server) replayMetrics(e *exposition) {
	last := s.replays.last()
	if last == nil {
		return
	}
	e.family("stategraft_anna_replay_phase", gauge, "How far the last replay is: 1 for its phase.")
	for _, phase := range []string{node.ReplayStaging, node.ReplayWaiting, node.ReplayReplaying, node.ReplayDone, node.ReplayFailed} {
		e.sample("stategraft_anna_replay_phase", truth(phase == last.Phase), fmt.Sprintf("phase=%q", phase))
	}
	e.write("stategraft_anna_replay_keys", gauge, "Keys that the last replay has written.", float64(last.Keys))
	e.write("stategraft_anna_replay_keys_wanted", gauge, "Keys that it is to write.", float64(last.Total))
	e.write("stategraft_anna_replay_keys_failed", gauge, "Keys that it could not write.", float64(last.Failed))
}

func (s *server) announceMetrics(e *exposition) {
	if s.announcer == nil {
		return
	}
	c := s.announcer.Counts()
	e.write("stategraft_anna_routing_nodes", gauge, "Routing nodes that there are.", float64(c.Routing))
	e.write("stategraft_anna_routing_nodes_knowing", gauge, "Routing nodes that know this node.", float64(c.Known))
	e.write("stategraft_anna_joins_sent_total", counter, "Times that a routing node was told of this node.", float64(c.Joins))
	e.write("stategraft_anna_left", gauge, "Whether this node has handed its keys over.", truth(c.Left))
	lookMetrics(e, c)
}

func departMetrics(e *exposition, c membership.Counts) {
	e.family("stategraft_anna_members", gauge, "Members that the routing node of this pod knows, by tier.")
	e.sample("stategraft_anna_members", float64(c.MemoryNodes), `tier="memory"`)
	e.sample("stategraft_anna_members", float64(c.Disk), `tier="ebs"`)
	e.write("stategraft_anna_members_gone", gauge, "Members that are gone.", float64(c.Gone))
	e.write("stategraft_anna_departs_sent_total", counter, "Messages that a node is gone for good.", float64(c.Departs))
	lookMetrics(e, c)
}

func lookMetrics(e *exposition, c membership.Counts) {
	e.write("stategraft_anna_membership_looks_total", counter, "Looks at the lists of members.", float64(c.Looks))
	e.write("stategraft_anna_membership_troubles_total", counter, "Answers that were missing in them.", float64(c.Troubles))
}
