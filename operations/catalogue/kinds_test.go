package catalogue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
)

// twoKinds are sidecars of Cassandra and of Anna below one prefix: neither sees the other's
// backups.
type twoKinds struct {
	Nodes
	deaf string // the pod that cannot list
}

func (n twoKinds) Backups(_ context.Context, pod *corev1.Pod, _ string) (node.Backups, error) {
	if pod.Name == n.deaf {
		return node.Backups{}, errors.New("no such host")
	}
	name, at := "ring", start.Add(-time.Hour)
	if kvs.Of(pod) {
		name, at = "keys", start.Add(-2*time.Hour)
	}
	return node.Backups{Backups: []node.Summary{{Name: name, Started: at}}}, nil
}

func (n twoKinds) Backup(_ context.Context, pod *corev1.Pod, _, name string) (node.Backup, error) {
	if kvs.Of(pod) != (name == "keys") {
		return node.Backup{}, nil
	}
	return node.Backup{Members: []node.Member{{Node: pod.Name}}}, nil
}

// TestTwoKindsOfOnePrefix has both kinds listed, as the [storage] prefix of a namespace's one
// medusa.ini is that of both. Else the backups of the one would be held to be gone.
func TestTwoKindsOfOnePrefix(t *testing.T) {
	of := func(name, kind string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{api.LabelInjected: kind}}}
	}
	both := []*corev1.Pod{of("cas-0", "cassandra"), of("mem-0", "anna"), of("ebs-0", "anna")}
	for name, c := range map[string]struct {
		pods   []*corev1.Pod
		deaf   string
		want   []string
		failed bool
	}{
		"one kind":         {both[:1], "", []string{"ring"}, false},
		"both":             {both, "", []string{"keys", "ring"}, false},
		"one is not seen":  {both, "cas-0", nil, true},
		"the other is not": {both, "mem-0", nil, true},
		"there is nobody":  {nil, "", nil, false},
	} {
		r := newRig(t, "ns")
		r.Catalogue.nodes = twoKinds{Nodes: r.asked, deaf: c.deaf}
		l, _ := r.listed(context.Background(), "ns", "shared", start, func() ([]*corev1.Pod, string) { return c.pods, "" })
		var names []string
		for _, s := range l.Backups {
			names = append(names, s.Name)
		}
		if !slices.Equal(names, c.want) || (l.Failed != "") != c.failed {
			t.Errorf("%s: %q, failed %q", name, names, l.Failed)
		}
		look := &looking{Catalogue: r.Catalogue, l: &looked{cluster: cluster{pods: c.pods}}}
		if other := look.other(both[0]); (other != nil) != (len(c.pods) > 1) || other != nil && !kvs.Of(other) {
			t.Errorf("%s: %+v", name, other)
		}
	}
}
