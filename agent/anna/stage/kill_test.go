package stage

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
)

// volumes gives the layouts of the disk tier: one volume, or one for each thread.
var volumes = map[string]func(data string) []string{
	"one volume": func(string) []string { return nil },
	"one each": func(data string) []string {
		return []string{filepath.Join(data, "ebs_0"), filepath.Join(data, "ebs_1")}
	},
	"one of them has": func(data string) []string { return []string{filepath.Join(data, "ebs_1")} },
}

// Whatever step a restore is killed at, the next run makes it good: all is staged, and
// the data from before are all there to go back to, from wherever the undo is killed.
func TestKilled(t *testing.T) {
	for name, layout := range volumes {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				if !killedAt(t, layout, n) {
					if n < 10 {
						t.Errorf("there are %d steps only", n)
					}
					return
				}
			}
		})
	}
}

// killedAt kills the restore at its n-th step, and the undo at its; false where both have
// fewer.
func killedAt(t *testing.T, layout func(string) []string, n int) bool {
	shelf := newShelf()
	shelf.part("b", "ebs-0", 1, 2)
	p := newPod(t, shelf)
	before := mounts
	mounts = func() []string { return layout(p.DataDirectory) }
	defer func() { mounts = before }()
	p.data(t, "ebs_0/k", "ebs_0/funcs/f", "ebs_1/x")
	old := p.tree(t)
	p.ID, p.Keep = "r/1", keepAlways
	fetchHere(t)
	killed := false

	stop := stopAt(t, n)
	if dies(func() { _, _, _ = Run(t.Context(), p.Config) }) {
		killed = true
		stop()
		// The setup container runs first, and makes Anna's directories.
		p.data(t, "ebs_0/funcs/.probe")
		removeAll(t, filepath.Join(p.DataDirectory, "ebs_0/funcs/.probe"))
	}
	stop()
	if _, _, err := Run(t.Context(), p.Config); err != nil {
		t.Fatalf("killed at step %d: %v", n, err)
	}
	s, err := Read(Dir(p.Root, p.ID))
	if err != nil || len(keys(t, s)) != 2 {
		t.Fatalf("killed at step %d: %v", n, err)
	}
	for name, content := range p.tree(t) {
		if content != "" {
			t.Errorf("killed at step %d: %s is there", n, name)
		}
	}

	u := p.Config
	u.ID, u.Action, u.Undo = "u/1", actionUndo, p.ID
	stop = stopAt(t, n)
	if dies(func() { _, _, _ = Run(t.Context(), u) }) {
		killed = true
		stop()
		p.data(t, "ebs_0/funcs/.probe")
		removeAll(t, filepath.Join(p.DataDirectory, "ebs_0/funcs/.probe"))
	}
	stop()
	if _, _, err := Run(t.Context(), u); err != nil {
		t.Fatalf("undo killed at step %d: %v", n, err)
	}
	got := p.tree(t)
	maps.DeleteFunc(got, func(name, _ string) bool { return slices.Contains([]string{"/ebs_0/ebs-0/", "/ebs_1/ebs-0/"}, name) })
	if !maps.Equal(got, old) {
		t.Errorf("undo killed at step %d: %v", n, got)
	}
	return killed
}

// A restore that was killed while it set the data aside can be undone at once.
func TestUndoHalf(t *testing.T) {
	for n := 1; ; n++ {
		shelf := newShelf()
		shelf.part("b", "ebs-0", 1, 2)
		p := newPod(t, shelf)
		p.data(t, "ebs_0/k", "ebs_0/funcs/f", "ebs_1/x")
		old := p.tree(t)
		p.ID, p.Keep = "r/1", keepAlways
		fetchHere(t)
		stop := stopAt(t, n)
		if !dies(func() { _, _, _ = Run(t.Context(), p.Config) }) {
			return
		}
		stop()
		previous := !empty(place{root: p.DataDirectory}.previous("r/1"))
		u := p.Config
		u.ID, u.Action, u.Undo = "u/1", actionUndo, p.ID
		_, _, err := Run(t.Context(), u)
		if (err == nil) != previous {
			t.Errorf("killed at step %d: %v, previous %v", n, err, previous)
		}
		if got := p.tree(t); !maps.Equal(got, old) {
			t.Errorf("killed at step %d: %v", n, got)
		}
	}
}
