package claims

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// The oldest goes first, whoever asks; one that has not asked for long does not wait.
func TestTheOldestWaitingIsNext(t *testing.T) {
	w, now := &world{}, start
	a := w.backup("prod", "a", after(3*time.Second))
	claims := New(w)
	claims.now = func() time.Time { return now }
	want(t, take(claims, of1("p"), Backup, a), "")
	want(t, take(claims, of1("p"), Backup, a), "") // again is fine
	b, c := w.backup("prod", "b", after(2*time.Second)), w.backup("prod", "c", after(time.Second))
	want(t, take(claims, of1("p"), Backup, b), "Backup prod/a")
	want(t, take(claims, of1("p"), Backup, c), "Backup prod/a")
	claims.Release(of1("p"), b.UID)
	claims.Release(of1("p"), a.UID)
	claims.Release(of1("other"), a.UID)
	want(t, take(claims, of1("p"), Backup, b), "Backup prod/c")
	want(t, take(claims, of1("p"), Backup, a), "Backup prod/c")
	now = now.Add(2 * AskAgain)
	want(t, take(claims, of1("p"), Backup, a), "Backup prod/c")
	now = now.Add(AskAgain + time.Second) // c and b have not come
	want(t, take(claims, of1("p"), Backup, a), "")
	a.Status.Name, a.Status.Prefix, a.Status.Phase = "x", "p", api.BackupFailed // not released
	want(t, take(claims, of1("p"), Backup, c), "")
	w.backups = w.backups[:2] // c is gone, with its turn
	want(t, take(claims, of1("p"), Backup, b), "")
}

// Neither kind keeps the other for ever.
func TestKindsAlternate(t *testing.T) {
	w := &world{}
	claims := New(w)
	claims.now = func() time.Time { return start }
	var wait []*api.Backup
	kinds := map[types.UID]Kind{}
	for i := range 4 {
		b := w.backup("prod", fmt.Sprintf("b%d", i), after(time.Duration(i)*time.Second))
		d := w.backup("prod", fmt.Sprintf("d%d", i), deleted("p", "Waiting"))
		kinds[b.UID], kinds[d.UID] = Backup, Deletion
		wait = append(wait, b, d)
	}
	order := ""
	var holder *api.Backup
	for len(wait) > 0 {
		holder = nil
		for range 2 { // all ask, and the one that is next may have been before others
			for _, b := range wait {
				if err := take(claims, of1("p"), kinds[b.UID], b); err == nil && holder == nil {
					holder = b
				} else if err == nil && holder != b {
					t.Fatalf("%s and %s have the turn", holder.Name, b.Name)
				}
			}
		}
		if holder == nil {
			t.Fatalf("nobody has the turn after %s", order)
		}
		order += holder.Name + " "
		for i, b := range wait {
			if b == holder {
				wait = append(wait[:i:i], wait[i+1:]...)
				break
			}
		}
		holder.Status.Phase = api.BackupComplete
		claims.Release(of1("p"), holder.UID)
	}
	if order != "b0 d0 b1 d1 b2 d2 b3 d3 " {
		t.Errorf("the order is %s", order)
	}
}

// In whatever order they ask, are restarted, end and vanish: never two at once, and all
// come to an end.
func TestNeverTwoAtOnce(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		w, now := &world{}, start
		claims := New(w)
		clock := func() time.Time { return now }
		claims.now = clock
		type job struct {
			*api.Backup
			kind Kind
			has  bool
		}
		var jobs []*job
		for i := range 6 {
			namespace := []string{"prod", "test"}[random.IntN(2)]
			j := &job{Backup: w.backup(namespace, fmt.Sprintf("j%d", i), after(time.Duration(random.IntN(5))*time.Second)), kind: Backup}
			if random.IntN(3) == 0 {
				j.kind = Deletion
				deleted("p", "Waiting")(j.Backup)
			}
			jobs = append(jobs, j)
		}
		for range 2000 {
			if len(jobs) == 0 {
				break
			}
			now = now.Add(time.Second)
			i := random.IntN(len(jobs))
			j := jobs[i]
			switch {
			case random.IntN(30) == 0: // the controller ends, and what was not written is lost
				claims = New(w)
				claims.now = clock
				for _, other := range jobs {
					other.has = other.has && implied(other.Backup) != ""
				}
			case !j.has:
				if take(claims, of1("p"), j.kind, j.Backup) != nil {
					continue
				}
				for _, other := range jobs {
					if other.has {
						t.Fatalf("seed %d: %s and %s at once", seed, j.Name, other.Name)
					}
				}
				j.has = true
			case implied(j.Backup) == "": // it writes what it has
				if j.kind == Backup {
					running("p")(j.Backup)
				} else {
					j.Status.Conditions[0].Reason = ReasonDeleting
				}
			default: // it ends
				if j.kind == Backup {
					j.Status.Phase = api.BackupComplete
				} else {
					for at, b := range w.backups {
						if b == j.Backup {
							w.backups = append(w.backups[:at:at], w.backups[at+1:]...)
							break
						}
					}
				}
				if random.IntN(2) == 0 {
					claims.Release(of1("p"), j.UID)
				}
				jobs = append(jobs[:i:i], jobs[i+1:]...)
			}
		}
		if len(jobs) > 0 {
			t.Fatalf("seed %d: %d never had their turn", seed, len(jobs))
		}
	}
}
