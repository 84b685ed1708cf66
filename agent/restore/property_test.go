package restore

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// crash is what a step panics with, as if the node had lost its power there.
type crash struct{}

// attempt runs what is asked for and crashes at the nth step, or has Medusa die in
// a phase. Of -1 and no phase there is no crash.
func (r *rig) attempt(n int, phase string) (text string, err error) {
	_ = os.Remove(r.path("dies"))
	if phase != "" {
		r.set("dies", phase)
	}
	step = func(string) {
		if n--; n == 0 {
			panic(crash{})
		}
	}
	defer func() {
		step = func(string) {}
		switch p := recover(); p.(type) {
		case nil:
		case crash:
			err = fmt.Errorf("crashed")
		default:
			panic(p)
		}
		_ = os.Remove(r.path("dies"))
	}()
	text, _, err = Run(r.t.Context(), r.Config)
	return text, err
}

// model is a volume as it should be: the files of the node, and the memories.
type model struct {
	files map[string]string
	done  []string
	kept  *image

	half     bool // replaced by the one that is doing
	doing    string
	doneKept *image // of the one that is doing
	from     *image
}

// image are kept data.
type image struct {
	id    string
	files map[string]string
}

func (m *model) find(id string) *image {
	for _, i := range []*image{m.doneKept, m.from, m.kept} {
		if i != nil && i.id == id {
			return i
		}
	}
	return nil
}

// op is a request.
type op struct {
	id, action, undo string
	keep             bool
}

// after is what the files are when the op is done.
func (m *model) after(o op) map[string]string {
	switch o.action {
	case actionEmpty:
		return map[string]string{}
	case actionUndo:
		return maps.Clone(m.find(o.undo).files)
	}
	files := map[string]string{}
	for path, text := range m.files {
		// Orphans stay; commit log, hints, caches and tables of the backup go.
		if strings.HasPrefix(path, "data/other/") {
			files[path] = text
		}
	}
	for path, text := range content {
		files["data/"+path] = text
	}
	return files
}

// begun is told that the op has begun to replace the data.
func (m *model) begun(o op) {
	kept := (*image)(nil)
	whole := cmp.Or(m.doneKept, m.from)
	switch {
	case m.half:
		if whole != nil {
			kept = &image{o.id, whole.files}
		}
	case o.keep:
		kept = &image{o.id, maps.Clone(m.files)}
	}
	var from *image
	if o.action == actionUndo {
		from = m.find(o.undo)
		if m.half && from == whole {
			kept = nil
		}
	}
	m.half, m.doing, m.doneKept, m.from = true, o.id, kept, from
}

func (m *model) finished(o op, files map[string]string) {
	m.files, m.done, m.kept = files, append(m.done, o.id), m.doneKept
	if !o.keep {
		m.kept = nil
	}
	m.half, m.doing, m.doneKept, m.from = false, "", nil, nil
}

// TestSequences does whatever comes in whatever order, with crashes anywhere, and
// compares the volume with a model after each.
func TestSequences(t *testing.T) {
	count := 8
	if testing.Short() {
		count = 3
	}
	for i := range count {
		seed := uint64(i + 1)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { sequence(t, rand.New(rand.NewPCG(seed, 5))) })
	}
}

func sequence(t *testing.T, random *rand.Rand) {
	r := newRig(t)
	r.set("vol/data/other/table-1/nb-1-big-Data.db", "first")
	m := &model{files: r.all()}
	var ids []string
	for n := range 10 {
		o := op{id: fmt.Sprintf("r%d/%x", n, n), keep: random.IntN(4) > 0}
		switch random.IntN(6) {
		case 0:
			o.action = actionEmpty
		case 1, 2, 3:
			if len(ids) > 0 {
				// The last is undone more often than others.
				o.action, o.undo = actionUndo, ids[max(0, len(ids)-1-random.IntN(4)/2)]
			}
		}
		if len(ids) > 0 && random.IntN(8) == 0 {
			o.id = ids[random.IntN(len(ids))] // once more
		}
		r.Keep = map[bool]string{true: keepIfRoom, false: keepNever}[o.keep]
		r.ask(o.id, o.action, o.undo)
		ids = append(ids, o.id)
		try(t, random, r, m, o)
		if !m.half {
			r.writes(random, n)
			m.files = r.all()
		}
	}
}

// writes is a database at work: new files, others gone.
func (r *rig) writes(random *rand.Rand, n int) {
	for _, path := range []string{"data/shop/orders-11/nb-%d-big-Data.db", "data/other/table-1/nb-%d-big-Data.db", "commitlog/CommitLog-7-%d.log", "hints/0a-%d-2.hints"} {
		r.set("vol/"+fmt.Sprintf(path, 100+n), fmt.Sprint("written after ", n))
	}
	files := slices.Sorted(maps.Keys(r.all()))
	_ = os.Remove(r.path("vol/" + files[random.IntN(len(files))])) // compacted
}

// try does the op with crashes until it is done, is refused, or is given up.
func try(t *testing.T, random *rand.Rand, r *rig, m *model, o op) {
	t.Helper()
	for {
		crashes, phase := -1, ""
		switch random.IntN(3) {
		case 0:
			crashes = 1 + random.IntN(30)
		case 1:
			phase = []string{"precheck", "download", "begin", "removed", "moved", "all", "end"}[random.IntN(7)]
		}
		was := r.marker()
		text, err := r.attempt(crashes, phase)
		now := r.marker()
		switch {
		case slices.Contains(m.done, o.id):
			if err == nil && (m.half || !strings.Contains(text, "nothing to do")) || err != nil && !m.half && err.Error() != "crashed" {
				t.Fatalf("%+v, done already, half %v: %s, %v", o, m.half, text, err)
			}
			unchanged(t, r, m, o)
			return
		case o.action == actionUndo && m.find(o.undo) == nil:
			if err == nil || err.Error() != "crashed" && !strings.Contains(err.Error(), "cannot be undone") {
				t.Fatalf("%+v: %s, %v", o, text, err)
			}
			unchanged(t, r, m, o)
			return
		}
		if err != nil && crashes < 0 && phase == "" {
			t.Fatalf("%+v failed by itself: %v\n%s", o, err, r.log.String())
		}
		if now.Begun[o.id] > was.Begun[o.id] || len(now.Requests) > len(was.Requests) {
			files := m.after(o)
			m.begun(o)
			if len(now.Requests) > len(was.Requests) {
				m.finished(o, files)
			}
		}
		if err == nil && (now.Doing != nil || !slices.Contains(m.done, o.id)) {
			t.Fatalf("%+v ended well, and the marker says %+v", o, now)
		}
		unchanged(t, r, m, o)
		if err == nil || slices.Contains(m.done, o.id) || random.IntN(6) == 0 {
			return
		}
	}
}

// unchanged compares the volume with the model.
func unchanged(t *testing.T, r *rig, m *model, o op) {
	t.Helper()
	now := r.marker()
	if (now.Doing != nil) != m.half || m.half && now.Doing.ID != m.doing {
		t.Fatalf("%+v: the marker says %+v, the model %+v", o, now.Doing, m)
	}
	var ids []string
	for _, d := range now.Requests {
		ids = append(ids, d.ID)
	}
	if !slices.Equal(ids, m.done) {
		t.Fatalf("%+v: done %v, want %v", o, ids, m.done)
	}
	if !m.half {
		r.sweepLeft()
		if got := r.all(); !maps.Equal(got, m.files) {
			t.Fatalf("%+v: the volume holds\n%q\nwant\n%q", o, got, m.files)
		}
	}
	var want []string
	for _, i := range []*image{m.doneKept, m.from, m.kept} {
		if i != nil {
			want = append(want, i.id)
		}
	}
	if got := r.previous(); !slices.Equal(got, want) {
		t.Fatalf("%+v: kept %v, want %v", o, got, want)
	}
}
