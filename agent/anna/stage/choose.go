package stage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/stategraft/stategraft/agent/anna/store"
)

// AllSources as a source are all nodes that have part in a backup.
const AllSources = "*"

// NoSource as a source says that others have all parts of a backup, and the pod gets none
// (api/v1alpha1, NoSource).
const NoSource = "-"

// Who is a pod that a backup's parts are chosen for.
type Who struct {
	Name   string // the pod's
	Source string // what was asked for: names of nodes with commas between, AllSources, NoSource, or nothing
	// Request tells that a Restore object asks. It has shared the parts out among the
	// pods, so one that is named nothing gets its own or none.
	Request bool
	// Gone tells of a pod of the same StatefulSet that it is not there any more. nil: none is.
	Gone func(ctx context.Context, pod string) bool
}

// Choose gives the nodes of a backup whose parts a pod replays. The note says, for
// people, what is remarkable in it.
//
// Asked for by the template, a pod takes its own part, and the first of a StatefulSet
// also those of its pods that are not there any more: the cluster was larger.
func Choose(ctx context.Context, from Source, backup string, who Who) (nodes []string, note string, err error) {
	entries, err := from.Backups(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("look for backup %s: %w", backup, err)
	}
	var all, unfinished []string
	for _, e := range entries {
		if e.Name != backup {
			continue
		}
		all = append(all, e.Node)
		if e.Finished.IsZero() {
			unfinished = append(unfinished, e.Node)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 {
		return nil, "", blame(causeNoBackup, fmt.Errorf("backup %s: %w", backup, store.ErrNoBackup))
	}
	nodes, note, err = who.choose(ctx, backup, all)
	if err != nil {
		return nil, "", err
	}
	for _, node := range nodes {
		if slices.Contains(unfinished, node) {
			return nil, "", blame(causeUnfinished, fmt.Errorf("backup %s of node %s is not complete: %w", backup, node, store.ErrUnfinished))
		}
	}
	return nodes, note, nil
}

func (w Who) choose(ctx context.Context, backup string, all []string) ([]string, string, error) {
	switch {
	case w.Source == AllSources:
		return all, "", nil
	case w.Source == NoSource:
		return nil, "no part of the backup is for this pod: others have all of it", nil
	case w.Source != "":
		var named []string
		for name := range strings.SplitSeq(w.Source, ",") {
			if name = strings.TrimSpace(name); name == "" || slices.Contains(named, name) {
				continue
			}
			if !slices.Contains(all, name) {
				return nil, "", blame(causeNoBackup, fmt.Errorf("backup %s has nothing of node %s: it has parts of %s", backup, name, listed(all)))
			}
			named = append(named, name)
		}
		return named, "", nil
	}
	set, ordinal, ok := split(w.Name)
	var own, gone []string
	related := false
	for _, name := range all {
		other, _, is := split(name)
		same := ok && is && other == set
		related = related || same || name == w.Name
		switch {
		case name == w.Name:
			own = append(own, name)
		case same && ordinal == 0 && !w.Request && w.Gone != nil && w.Gone(ctx, name):
			gone = append(gone, name)
		}
	}
	switch {
	case !related && !w.Request:
		// Every pod of the set would start empty, and nobody would know.
		return nil, "", blame(causeNoBackup, fmt.Errorf("backup %s has nothing of %s nor of another pod of its StatefulSet: it has parts of %s; name one of them with annotation stategraft.io/restore-source, or %s for all",
			backup, w.Name, listed(all), AllSources))
	case len(gone) > 0:
		return append(own, gone...), "with the parts of pods that are not there any more: " + listed(gone), nil
	case len(own) == 0:
		return nil, fmt.Sprintf("the backup has no part of %s: others have all of it", w.Name), nil
	}
	return own, "", nil
}

// split gives the StatefulSet and the ordinal of a pod's name.
func split(name string) (set string, ordinal int, ok bool) {
	at := strings.LastIndexByte(name, '-')
	if at <= 0 {
		return "", 0, false
	}
	ordinal, err := strconv.Atoi(name[at+1:])
	return name[:at], ordinal, err == nil && ordinal >= 0
}

// Lookup is net.DefaultResolver.LookupHost.
type Lookup func(ctx context.Context, host string) ([]string, error)

// GoneByDNS tells of a pod that it is gone when the headless Service of its StatefulSet
// does not know it. Where DNS cannot say, it is there.
func GoneByDNS(lookup Lookup, suffix string) func(context.Context, string) bool {
	return func(ctx context.Context, pod string) bool {
		_, err := lookup(ctx, pod+suffix)
		var failed *net.DNSError
		return errors.As(err, &failed) && failed.IsNotFound
	}
}
