package restore

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/stategraft/stategraft/agent/files"
)

// makeRoom gives the room for the download. Where that is too little, what an
// interrupted restore has half replaced goes, and data that were kept from an earlier
// one: this one would replace both anyway. It is not done for a restore that is
// refused all the same.
func (j *job) makeRoom(report Report) (int64, error) {
	free, err := files.Free(j.Temp)
	need := needed(report.Size())
	if err != nil || free >= need || Judge(report, j.Backup, need) != nil {
		return free, err
	}
	if free, err = j.dropHalf(report, free); err != nil || free >= need {
		return free, err
	}
	k := j.before.Kept
	if k == nil || free+j.exclusive(k) < need {
		return free, nil
	}
	j.note(fmt.Sprintf("the data from before %s were removed to make room", k.ID))
	j.before.Kept = nil
	if err := j.before.write(j.DataMount); err != nil {
		return 0, err
	}
	if err := j.prune(j.before); err != nil {
		return 0, err
	}
	return files.Free(j.Temp)
}

// older is the size of the data that were kept before, and that go when this is done:
// not those that an undo brings back.
func (j *job) older() int64 {
	k := j.before.Kept
	if k == nil || j.Action == actionUndo && k.ID == j.Undo {
		return 0
	}
	return j.exclusive(k)
}

// dropHalf removes the tables that this restore replaces where an earlier one was
// interrupted and all from before it is kept: what that has moved in place takes the
// room that it took for its download. The rest of them is among what is kept.
func (j *job) dropHalf(report Report, free int64) (int64, error) {
	d := j.before.Doing
	if d == nil || d.whole() == nil {
		return free, nil
	}
	sealed, err := readSeal(j.DataMount, d.whole())
	if err == nil {
		_, err = j.list(d.whole(), sealed)
	}
	if err != nil {
		j.Log.Warn("what is half replaced stays until all is downloaded", "error", err.Error())
		return free, nil
	}
	for name := range j.replaces(report) {
		step("drop")
		if err := os.RemoveAll(filepath.Join(report.DataDirectory, name)); err != nil {
			return 0, fmt.Errorf("remove what is half replaced: %w", err)
		}
	}
	j.Log.Warn("removed what was half replaced, to make room", "id", d.ID)
	return files.Free(j.Temp)
}

// replaces are the directories of tables that Medusa takes away before it moves
// those of the backup in place; the target's logins stay.
func (j *job) replaces(report Report) map[string]bool {
	all := map[string]bool{}
	for _, t := range report.Tables {
		name := filepath.Join(t.Keyspace, t.Name)
		if t.Keyspace == dse || j.remote() && t.Keyspace == "system_auth" || t.Keyspace == "" || t.Name == "" || !filepath.IsLocal(name) {
			continue
		}
		all[name] = true
	}
	return all
}
