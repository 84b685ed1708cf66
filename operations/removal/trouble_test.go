package removal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
)

// The same removal again and again, with whatever fails in between, ends with the
// backup gone and nothing else.
func TestRemoveAgainAndAgain(t *testing.T) {
	names := []string{one, two, three}
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 7))
		r := newRig(t, "a", "b", "c")
		for _, n := range names {
			r.put(n, "a", "b", "c")
		}
		var all []*api.Backup
		for _, n := range names[:2] {
			all = append(all, made(n, "a", "b", "c"))
		}
		for range 12 {
			switch random.IntN(4) {
			case 0:
				r.storage.SetTrouble(errors.New("503"))
			case 1:
				r.both[random.IntN(3)].Kill()
			case 2:
				if err := r.both[random.IntN(3)].Restart(); err != nil {
					t.Fatal(err)
				}
			default:
				r.storage.SetTrouble(nil)
			}
			err := r.Remove(context.Background(), all[random.IntN(2)], r.pods)
			if wait := (*Wait)(nil); err != nil && !errors.As(err, &wait) {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		r.storage.SetTrouble(nil)
		for _, b := range r.both {
			if err := b.Restart(); err != nil {
				t.Fatal(err)
			}
		}
		for _, b := range all {
			r.want(b, "")
			r.want(b, "")
		}
		r.left(three)
	}
}

// cached is an informer of Backups.
type cached struct {
	client.Reader
	all []*api.Backup
	err error
}

func (c *cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for _, b := range c.all {
		list.(*api.BackupList).Items = append(list.(*api.BackupList).Items, *b)
	}
	return c.err
}

// A storage that shows nothing at all of what there has to be is not believed.
func TestEmptyListing(t *testing.T) {
	failed := made(three, "a")
	failed.Status.Phase = api.BackupFailed
	missing := made(three, "a")
	missing.Status.Phase = api.BackupMissing
	elsewhere := made(three, "a")
	elsewhere.Status.Prefix = "other"
	for name, c := range map[string]struct {
		others []*api.Backup
		there  []string
		want   Reason
	}{
		"the only one":                   {nil, nil, ""},
		"another should be there":        {[]*api.Backup{made(two, "a")}, nil, ListEmpty},
		"another is":                     {[]*api.Backup{made(two, "a")}, []string{two}, ""},
		"one of two is":                  {[]*api.Backup{made(three, "a"), made(two, "a")}, []string{two}, ""},
		"only strangers are":             {[]*api.Backup{made(two, "a")}, []string{"stranger"}, ListEmpty},
		"another has nothing":            {[]*api.Backup{failed}, nil, ""},
		"another is known to have gone":  {[]*api.Backup{missing}, nil, ""},
		"another is of another cluster":  {[]*api.Backup{elsewhere}, nil, ""},
		"one that was found should be":   {[]*api.Backup{func() *api.Backup { b := found("f"); b.Status.Phase = api.BackupPartial; return b }()}, nil, ListEmpty},
		"one that is not looked into is": {[]*api.Backup{found("f")}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "a")
			me := made(one, "a")
			r.Cached = &cached{all: append(c.others, me)}
			for _, n := range c.there {
				r.put(n, "a")
			}
			r.want(me, c.want)
			r.left(c.there...)
		})
	}
	r := newRig(t, "a")
	gone := errors.New("gone")
	r.Cached = &cached{err: gone}
	if err := r.Remove(context.Background(), made(one, "a"), r.pods); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

// halves is a storage in which deletions were interrupted: of a part only the entry of
// the index is left, which no Medusa takes for a backup.
type halves struct {
	Nodes
	left map[string]bool // by node
	kept error
}

func (h *halves) Backups(context.Context, *corev1.Pod, string) (node.Backups, error) {
	var list node.Backups
	if len(h.left) > 0 {
		list.Backups = []node.Summary{{Name: one, Started: now.Add(-time.Hour), Nodes: slices.Sorted(maps.Keys(h.left))}}
	}
	return list, nil
}

func (h *halves) Discard(_ context.Context, pod *corev1.Pod, prefix, name string) error {
	if name != one || prefix != "" {
		return fmt.Errorf("asked for %q below %q", name, prefix)
	}
	if h.kept == nil {
		delete(h.left, pod.Name)
	}
	return h.kept
}

func TestWhatIsHalfDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		left []string
		kept error
		none bool
		want Reason
	}{
		"of nodes that run":      {left: []string{"a", "b"}},
		"of one":                 {left: []string{"b"}},
		"of one that is gone":    {left: []string{"a", "z"}, want: NotDeleted},
		"it cannot be removed":   {left: []string{"a"}, kept: sidecar.ErrNotDiscarded, want: NotDeleted},
		"nobody is there to ask": {left: []string{"a"}, none: true, want: NotDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "a", "b")
			h := &halves{Nodes: r.Nodes, left: map[string]bool{}, kept: c.kept}
			for _, n := range c.left {
				h.left[n] = true
			}
			r.Nodes = h
			if !c.none {
				r.Discards = h
			}
			r.want(made(one, "a", "b"), c.want)
			if c.want == "" && len(h.left) > 0 {
				t.Errorf("left is %v", h.left)
			}
		})
	}
}

func TestContextEnds(t *testing.T) {
	r := newRig(t, "a")
	r.put(one, "a")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := r.Remove(ctx, made(one, "a"), r.pods)
	if wait := (*Wait)(nil); err == nil || errors.As(err, &wait) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	r.left(one)
}
