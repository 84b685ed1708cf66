package restore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stategraft/stategraft/api/node"
)

// undo goes back to the data from before an earlier restore. It needs neither
// Medusa nor the storage.
//
// The kept data stay where they are until all is done: they get second names in
// the places of the data, so that an undo which was interrupted begins anew.
func (j *job) undo(ctx context.Context) (string, node.Done, error) {
	var none node.Done
	j.phase(node.LookingUp, 0)
	from := j.keptFor(j.Undo)
	if from == nil {
		return "", none, fmt.Errorf("%s cannot be undone: the data from before it are not on this volume; %s", j.Undo, j.others())
	}
	sealed, err := readSeal(j.DataMount, from)
	if err != nil {
		return "", none, fmt.Errorf("%s cannot be undone: %w", j.Undo, err)
	}
	list, err := j.list(from, sealed)
	if err != nil {
		return "", none, fmt.Errorf("%s cannot be undone: %w", j.Undo, err)
	}
	if err := j.clean(); err != nil {
		return "", none, err
	}
	j.bytes = sealed.Bytes
	l := j.relocate(sealed)
	keep, err := j.keeping(l, 0)
	if err != nil {
		return "", none, err
	}
	kept, err := keep(ctx)
	if err != nil {
		return "", none, err
	}
	if kept != nil && kept.Dir == from.Dir {
		kept = nil // it is undone in its middle: there are no other data
	}
	if err := j.begin(kept, from, none); err != nil {
		return "", none, err
	}
	if err := l.wipe(); err != nil {
		return "", none, err
	}
	if err := j.putBack(from, l, list); err != nil {
		return "", none, fmt.Errorf("put the data from before back: %w", err)
	}
	j.phase(node.Verifying, j.bytes)
	for _, at := range l {
		if _, err := check(at.Path, list[at.Part]); err != nil {
			return "", none, fmt.Errorf("the data from before were not put back: %w", err)
		}
	}
	done, err := j.finish(l, node.Done{Bytes: sealed.Bytes, Tables: tables(list[partData])})
	if err != nil {
		return "", none, err
	}
	j.Log.Info("undone", "id", done.ID, "undo", j.Undo, "since", from.Since, "files", sealed.Files, "bytes", sealed.Bytes, "previous_kept", done.Previous)
	return fmt.Sprintf("undone %s: the data of %s are back, %d files, %s", j.Undo, from.Since.Format(time.RFC3339), sealed.Files, human(sealed.Bytes)) + j.notes, done, nil
}

// keptFor finds the data from before a restore: one that is done, or one that was
// interrupted.
func (j *job) keptFor(id string) *Kept {
	for _, k := range j.before.kept() {
		if k.ID == id {
			return k
		}
	}
	return nil
}

func (j *job) others() string {
	var known []string
	for _, k := range j.before.kept() {
		known = append(known, k.ID)
	}
	if len(known) == 0 {
		return "nothing is kept on it at all"
	}
	return "it keeps those from before " + strings.Join(known, ", ")
}

// tables counts the directories of tables in a list of the data directory.
func tables(list []entry) int {
	count := 0
	for _, e := range list {
		if e.Mode.IsDir() && strings.Count(e.Path, "/") == 1 {
			count++
		}
	}
	return count
}

// empty removes all data, for a node of which the backup has nothing: it joins as
// a new one.
func (j *job) empty(ctx context.Context) (string, node.Done, error) {
	var none node.Done
	j.phase(node.LookingUp, 0)
	l, err := j.layout()
	if err != nil {
		return "", none, err
	}
	if err := j.clean(); err != nil {
		return "", none, err
	}
	keep, err := j.keeping(l, 0)
	if err != nil {
		return "", none, err
	}
	kept, err := keep(ctx)
	if err != nil {
		return "", none, err
	}
	if err := j.begin(kept, nil, none); err != nil {
		return "", none, err
	}
	if err := l.wipe(); err != nil {
		return "", none, err
	}
	done, err := j.finish(l, none)
	if err != nil {
		return "", none, err
	}
	j.Log.Info("emptied", "id", done.ID, "data_directory", l.data(), "previous_kept", done.Previous)
	return "the volume is empty: the node joins as a new one" + j.notes, done, nil
}
