package serve

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/test/annanode"
)

// TestTidy: what a restore has kept goes when the node has served for long enough, and not
// while its keys are written, or could not be.
func TestTidy(t *testing.T) {
	t.Parallel()
	hosts, err := annanode.FreeHosts(1)
	must(t, err)
	r := newRig(t)
	r.holding()
	r.Pod.Role, r.Pod.DataDirectory, r.TidyAfter, r.Local = "ebs", t.TempDir(), 100*time.Millisecond, hosts[0]
	must(t, os.MkdirAll(filepath.Join(r.Pod.DataDirectory, "ebs_0"), 0o755))
	must(t, os.WriteFile(filepath.Join(r.Pod.DataDirectory, "ebs_0", "k"), []byte("old"), 0o600))
	_, _, err = stage.Run(t.Context(), stage.Config{
		ID: "ns/r", Action: "empty", Keep: "Always", PodName: "m-0", DataDirectory: r.Pod.DataDirectory, Root: filepath.Join(t.TempDir(), "elsewhere"), Log: r.Log,
	})
	must(t, err)
	s := newServer(r.Config)
	kept := func() int {
		previous, err := stage.Previous(r.Pod.DataDirectory)
		must(t, err)
		return len(previous)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.tidy(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	time.Sleep(300 * time.Millisecond)
	if kept() != 1 {
		t.Fatal("removed though the node does not serve")
	}
	s.replays.tell(node.Replay{ID: "ns/r", Phase: node.ReplayFailed})
	listener, err := net.Listen("tcp", net.JoinHostPort(hosts[0], strconv.Itoa(wire.PortRequest)))
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	time.Sleep(300 * time.Millisecond)
	if kept() != 1 {
		t.Fatal("removed though not all keys are there")
	}
	s.replays.tell(node.Replay{ID: "ns/r", Phase: node.ReplayDone})
	eventually(t, func() bool { return kept() == 0 })
}
