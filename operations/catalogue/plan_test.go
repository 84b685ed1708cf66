package catalogue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// The newest are made when there are too many, and all have a name of their own.
func TestPlanOfThousands(t *testing.T) {
	f := facts{namespace: "prod", prefix: "c", room: DefaultMost, make: true, now: start, listing: Listing{Listed: start}}
	for i := range 2500 { // the oldest first
		name := fmt.Sprintf("20261130-030017-m%08x-same", i)
		if i%2 == 0 {
			name = fmt.Sprintf("Foreign_%d", i)
		}
		f.listing.Backups = append(f.listing.Backups, node.Summary{Name: name, Started: start.Add(time.Duration(i-3000) * time.Minute), Complete: true})
	}
	p := planOf(f)
	if len(p.creates) != DefaultMost || p.doc.Left != 500 || p.doc.Backups != 2500 || p.doc.Complete != 2500 || p.doc.Message == "" {
		t.Fatalf("%d are made, %+v", len(p.creates), p.doc)
	}
	names := map[string]bool{}
	for i, c := range p.creates {
		if want := f.listing.Backups[2499-i].Name; c.summary.Name != want || c.object.Spec.Existing.Name != want {
			t.Fatalf("at %d is %s, want %s", i, c.summary.Name, want)
		}
		names[c.object.Name] = true
	}
	if len(names) != DefaultMost {
		t.Errorf("there are %d names", len(names))
	}
	f.room = -3
	if p := planOf(f); len(p.creates) != 0 || p.doc.Left != 2500 {
		t.Errorf("%d are made, %+v", len(p.creates), p.doc)
	}
}

// In whatever world: what is not sure is left, and no backup gets two objects.
func TestPlanIsCareful(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 3))
		f := randomFacts(random)
		p := planOf(f)
		has := map[string]bool{}
		for _, s := range f.listing.Backups {
			has[s.Name] = true
		}
		kept := 0
		for _, b := range f.objects {
			if key := whereOf(b); b.Namespace == "prod" && b.DeletionTimestamp == nil && key == at("prod", "c", key.name) && stored(b) && has[key.name] {
				kept++
			}
		}
		for _, m := range p.marks {
			key := whereOf(m.object)
			if m.object.Namespace != "prod" || key.prefix != "c" || m.object.DeletionTimestamp != nil || !m.object.Found() && !m.object.Status.Phase.Final() {
				t.Fatalf("seed %d: %s is not to be judged", seed, m.object.Name)
			}
			if !m.missing {
				continue
			}
			since, known := f.absent[m.object.UID]
			whole := slices.ContainsFunc(f.listing.Backups, func(s node.Summary) bool { return s.Name == key.name && s.Complete })
			if f.listing.Failed != "" || !known || f.listing.Listed.Sub(since) < apart || whole || stored(m.object) && kept == 0 {
				t.Fatalf("seed %d: %s is not missing for sure", seed, m.object.Name)
			}
		}
		if f.listing.Failed != "" && len(p.creates)+len(p.looks)+len(p.marks)+len(p.absent) > 0 {
			t.Fatalf("seed %d: a listing that failed says something", seed)
		}
		if len(p.creates) > max(f.room, 0) {
			t.Fatalf("seed %d: %d are made where there is room for %d", seed, len(p.creates), f.room)
		}
		names, wheres := map[string]bool{}, map[where]bool{}
		for _, b := range f.objects {
			if b.Namespace == "prod" {
				names[b.Name], wheres[whereOf(b)] = true, true
			}
		}
		for _, c := range p.creates {
			key := whereOf(c.object)
			if names[c.object.Name] || wheres[key] || f.before[key] || f.names[key.name] || !has[key.name] || c.object.Spec.DeletionPolicy != api.DeletionKeep || c.object.Namespace != "prod" {
				t.Fatalf("seed %d: %s is made of %v", seed, c.object.Name, key)
			}
			names[c.object.Name], wheres[key] = true, true
		}
		// Once all is made, the same listing makes nothing more.
		for _, c := range p.creates {
			c.object.UID = types.UID(c.object.Name)
			f.objects = append(f.objects, c.object)
		}
		f.room -= len(p.creates)
		if more := planOf(f); len(more.creates) > 0 {
			t.Fatalf("seed %d: %s is made the second time", seed, more.creates[0].object.Name)
		}
	}
}

func randomFacts(random *rand.Rand) facts {
	f := facts{namespace: "prod", prefix: "c", make: true, now: start, room: random.IntN(6) - 1, before: map[where]bool{}, names: map[string]bool{}, absent: map[types.UID]time.Time{}}
	f.listing.Listed = start
	if random.IntN(10) == 0 {
		f.listing.Failed = "503"
	}
	stored := []string{"a", "b1", "b10", "A_b", "data", "x y", nightly, before, "before", strings.Repeat("z", 70)}
	phases := append(slices.Clone(api.BackupPhases), "")
	for i, name := range stored {
		if random.IntN(2) == 0 && f.listing.Failed == "" {
			f.listing.Backups = append(f.listing.Backups, node.Summary{Name: name, Started: start.Add(-time.Duration(random.IntN(50)) * time.Hour), Complete: random.IntN(3) > 0, Nodes: []string{"db-0"}})
		}
		if random.IntN(8) == 0 {
			f.before[at("prod", "c", name)] = true
		}
		if random.IntN(8) == 0 {
			f.names[name] = true
		}
		if random.IntN(2) == 0 {
			continue
		}
		b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: api.ObjectName("c", name, false), UID: types.UID(fmt.Sprint(i))}}
		if random.IntN(6) == 0 {
			b.Namespace = "test"
		}
		if random.IntN(6) == 0 {
			b.DeletionTimestamp = new(metav1.NewTime(start))
		}
		prefix := "c"
		if random.IntN(8) == 0 {
			prefix = "other"
		}
		b.Status.Phase = phases[random.IntN(len(phases))]
		if random.IntN(2) == 0 {
			b.Spec.Existing = &api.ExistingBackup{Name: name, Prefix: prefix}
		} else if random.IntN(8) > 0 {
			b.Status.Name, b.Status.Prefix = name, prefix
		}
		if random.IntN(2) == 0 {
			b.Status.Objects, b.Status.Listed = 5, new(metav1.NewTime(start.Add(-time.Duration(random.IntN(48))*time.Hour)))
		}
		f.objects = append(f.objects, b)
		if random.IntN(2) == 0 {
			f.absent[b.UID] = start.Add(-time.Duration(random.IntN(180)) * time.Second)
		}
		f.before[whereOf(b)] = true
	}
	return f
}

func TestFillIsAsTheStorageHasIt(t *testing.T) {
	begun, ended := start.Add(-time.Hour), start.Add(-time.Minute)
	whole := func(name string) node.Member {
		return node.Member{Node: name, Complete: true, Started: begun, Finished: ended, Objects: 3, Bytes: 3000, Tables: 2, Version: "4.1.10", Type: "differential"}
	}
	ring := map[string]node.Ring{"a": {Tokens: []string{"1", "2"}, Datacenter: "dc1", Rack: "r1"}, "b": {Tokens: []string{"3"}, Datacenter: "dc1", Rack: "r2"}}
	empty := whole("b")
	empty.Objects = 0
	begunOnly := node.Member{Node: "b", Started: begun}
	old := whole("b")
	old.Version, old.Type = "3.11.17", "full"
	many := &node.Backup{Summary: node.Summary{Started: begun, Finished: ended, Complete: true}, Ring: map[string]node.Ring{}}
	for i := range 1001 {
		name := fmt.Sprintf("n%04d", i)
		many.Members, many.Ring[name] = append(many.Members, whole(name)), node.Ring{Tokens: []string{"1"}}
	}
	for name, c := range map[string]struct {
		has     *node.Backup
		want    api.BackupPhase
		objects int64
		pods    string
	}{
		"whole":               {&node.Backup{Summary: node.Summary{Started: begun, Finished: ended, Complete: true}, Members: []node.Member{whole("a"), whole("b")}, Ring: ring}, api.BackupComplete, 6, "2/2"},
		"nothing in a part":   {&node.Backup{Summary: node.Summary{Started: begun, Finished: ended, Complete: true}, Members: []node.Member{whole("a"), empty}, Ring: ring}, api.BackupPartial, 3, "1/2"},
		"a part not finished": {&node.Backup{Summary: node.Summary{Started: begun}, Members: []node.Member{whole("a"), begunOnly}, Ring: ring}, api.BackupPartial, 3, "1/2"},
		"a node left out":     {&node.Backup{Summary: node.Summary{Started: begun}, Members: []node.Member{whole("a")}, Ring: ring}, api.BackupPartial, 3, "1/2"},
		"none finished":       {&node.Backup{Summary: node.Summary{Started: begun}, Members: []node.Member{begunOnly}, Ring: ring}, api.BackupFailed, 0, "0/2"},
		"no token map":        {&node.Backup{Summary: node.Summary{Started: begun}, Members: []node.Member{whole("a")}}, api.BackupPartial, 3, "1/1"},
		"two versions":        {&node.Backup{Summary: node.Summary{Started: begun, Finished: ended, Complete: true}, Members: []node.Member{whole("a"), old}, Ring: ring}, api.BackupComplete, 6, "2/2"},
		"too many nodes":      {many, api.BackupPartial, 3003, "1001/1001"},
	} {
		t.Run(name, func(t *testing.T) {
			b := object("prod", "x", "c", "x")
			b.Status.Verified = &api.Verification{Result: api.VerificationPassed}
			fill(b, c.has, start)
			s := b.Status
			if s.Phase != c.want || s.Objects != c.objects || s.Progress.Pods != c.pods || s.Message == "" || s.Verified == nil || len(s.Pods) > mostPods {
				t.Errorf("%+v", s)
			}
			// What the API server sees to.
			if s.Phase == api.BackupComplete && (s.Name == "" || s.Finished == nil || slices.ContainsFunc(s.Pods, func(p api.PodBackup) bool { return p.Phase != api.PodBackupComplete })) {
				t.Errorf("it is not complete: %+v", s)
			}
			again := b.DeepCopy()
			if fill(again, c.has, start); !equality.Semantic.DeepEqual(again.Status, s) {
				t.Error("the second time it is another one")
			}
		})
	}
	b := object("prod", "x", "c", "x")
	fill(b, &node.Backup{Members: []node.Member{whole("a"), old}, Ring: ring}, start)
	if b.Status.Database != "3.11.17" || b.Status.Type != api.BackupFull {
		t.Errorf("%s, %s", b.Status.Database, b.Status.Type)
	}
}

func TestOlder(t *testing.T) {
	for _, c := range [][2]string{{"3.11.17", "4.0.1"}, {"4.1.9", "4.1.10"}, {"4.1", "4.1.1"}, {"5.0-beta1", "5.0-beta2"}} {
		if !older(c[0], c[1]) || older(c[1], c[0]) || older(c[0], c[0]) {
			t.Errorf("%s and %s", c[0], c[1])
		}
	}
}

func TestSizes(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1.0KiB", 1503238553: "1.4GiB", 5 << 50: "5120.0TiB"} {
		if got := sizeText(bytes); got != want {
			t.Errorf("%d is %s, want %s", bytes, got, want)
		}
	}
}

func TestDocuments(t *testing.T) {
	all := []Document{
		{Pod: "db-0", Failed: "it does not answer"}, {Pod: "web-0", Failed: "it does not answer"},
		{Prefix: "", Pod: "a-0", Listed: start, Backups: 3}, {Prefix: "prod_c", Pod: "b-0", Listed: start},
		{Prefix: "strange+prefix", Pod: "b-0", Listed: start, Failed: "empty"}, {Message: "no pod"},
	}
	texts := data(all)
	if len(texts) != len(all) || texts["prod_c"] == "" {
		t.Errorf("%v", texts)
	}
}
