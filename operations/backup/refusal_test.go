package backup

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

const wrongKey = "ClientError: An error occurred (InvalidAccessKeyId) when calling the ListObjectsV2 operation: The AWS Access Key Id you provided does not exist in our records."

// wrong is a storage that refuses the sidecars' credentials: Medusa takes that for "there
// is no such backup", and whoever asks the storage itself is told.
type wrong struct {
	asker
	says  atomic.Pointer[error]
	asked atomic.Int32
}

func (w *wrong) Backup(ctx context.Context, pod *corev1.Pod, prefix, name string) (node.Backup, error) {
	w.asked.Add(1)
	if err := w.says.Load(); err != nil {
		return node.Backup{}, *err
	}
	return w.asker.Backup(ctx, pod, prefix, name)
}

func refusedBy(w *whole, err error) *wrong {
	w.Helper()
	said := &wrong{asker: w.r.ask}
	said.says.Store(&err)
	w.r.ask = said
	return said
}

func answer(text string) error {
	return &sidecar.AnswerError{Status: http.StatusInternalServerError, Message: "look backup b up: " + text}
}

// With a wrong key a Backup tells so within seconds, and while it goes on; it ends after
// its tries, long before its timeout, and says why. The last try is minutes after the
// first, as a key that was just made may be unknown for so long.
func TestWrongKey(t *testing.T) {
	w := newWhole(t, 2)
	said := refusedBy(w, answer(wrongKey))
	for _, p := range w.pods {
		p.set(sidecartest.Work{NeverBegins: true})
	}
	w.ask(func(*api.Backup) {})
	first := w.run(func(b *api.Backup) bool { return strings.Contains(b.Status.Message, "InvalidAccessKeyId") })
	if first.Status.Phase.Final() || w.now.Sub(today) > 10*time.Second {
		t.Errorf("told after %v, %s: %s", w.now.Sub(today), first.Status.Phase, first.Status.Message)
	}
	for _, at := range first.Status.Pods {
		if !strings.Contains(at.Message, refuses+"ClientError: An error occurred (InvalidAccessKeyId)") {
			t.Errorf("%s: %s", at.Name, at.Message)
		}
	}
	b := w.run(over_)
	if b.Status.Phase != api.BackupFailed || b.Status.Pod("cas-0").Tries != 3 || w.now.Sub(today) < refusedFor || w.now.Sub(today) > refusedFor+time.Minute {
		t.Errorf("%s after %v: %+v", b.Status.Phase, w.now.Sub(today), b.Status.Pods)
	}
	bad := meta.FindStatusCondition(b.Status.Conditions, api.ConditionFailed)
	for what, text := range map[string]string{"status": b.Status.Message, "cas-1": b.Status.Pod("cas-1").Message, "condition": bad.Message} {
		if !strings.Contains(text, wrongKey) {
			t.Errorf("%s: %s", what, text)
		}
	}
	if n := said.asked.Load(); n != 2*3 {
		t.Errorf("the storage was asked %d times", n)
	}
}

// A key that is corrected in time is enough.
func TestKeyIsCorrected(t *testing.T) {
	w := newWhole(t, 1)
	said := refusedBy(w, answer(wrongKey))
	w.pods[0].set(sidecartest.Work{NeverBegins: true})
	w.ask(func(*api.Backup) {})
	w.run(func(b *api.Backup) bool { return strings.Contains(b.Status.Message, refuses) })
	w.pods[0].set(quick)
	said.says.Store(nil)
	if b := w.run(over_); b.Status.Phase != api.BackupComplete || b.Status.Pod("cas-0").Tries != 2 || b.Status.Pod("cas-0").Message != "" {
		t.Errorf("%s: %+v", b.Status.Message, b.Status.Pods)
	}
}

// A key that was just made, and is known minutes later, is enough too.
func TestKeyIsKnownLater(t *testing.T) {
	w := newWhole(t, 1)
	said := refusedBy(w, answer(wrongKey))
	w.pods[0].set(sidecartest.Work{NeverBegins: true})
	w.ask(func(*api.Backup) {})
	w.run(func(*api.Backup) bool { return w.now.Sub(today) > 2*time.Minute })
	w.pods[0].set(quick)
	said.says.Store(nil)
	if b := w.run(over_); b.Status.Phase != api.BackupComplete || b.Status.Pod("cas-0").Tries != 3 {
		t.Errorf("%s: %+v", b.Status.Message, b.Status.Pods)
	}
}

// A storage that only does not answer, and a sidecar that gave up for something else, have
// the time that they had; where nothing else is known the log is named.
func TestGivenUpForSomethingElse(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		while string
		end   string
	}{
		"the storage does not answer": {answer("ConnectTimeoutError: Connect timeout on endpoint URL"), unasked + "ConnectTimeoutError", unasked + "ConnectTimeoutError"},
		"the storage answers":         {nil, "", "kubectl logs cas-0 -c stategraft-medusa"},
		"the sidecar does not":        {sidecar.ErrUnreachable, "", "kubectl logs cas-0 -c stategraft-medusa"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWhole(t, 1)
			if c.err != nil {
				refusedBy(w, c.err)
			}
			w.pods[0].set(sidecartest.Work{NeverBegins: true})
			w.ask(func(b *api.Backup) { b.Spec.Retries = new(int32(0)) })
			w.run(podRuns("cas-0"))
			told := ""
			b := w.run(func(b *api.Backup) bool {
				if !b.Status.Phase.Final() && b.Status.Pods[0].Message != "" {
					told = b.Status.Message
				}
				return over_(b)
			})
			if !strings.Contains(told, c.while) || c.while == "" && told != "" {
				t.Errorf("while it runs: %s", told)
			}
			if b.Status.Phase != api.BackupFailed || !strings.Contains(b.Status.Message, c.end) {
				t.Errorf("%s: %s", b.Status.Phase, b.Status.Message)
			}
			if took := w.now.Sub(today); took < settleFor || took > 2*settleFor {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A Medusa that is at it and has stored nothing is let go on; what the storage says is told.
func TestRefusedWhileBusy(t *testing.T) {
	w := newWhole(t, 1)
	said := refusedBy(w, answer(wrongKey))
	w.pods[0].set(sidecartest.Work{Before: time.Hour})
	w.ask(func(*api.Backup) {})
	w.run(func(b *api.Backup) bool { return strings.Contains(b.Status.Message, "InvalidAccessKeyId") })
	if took := w.now.Sub(today); took < blameAfter || took > blameAfter+slowest+time.Second {
		t.Errorf("told after %v", took)
	}
	b := w.run(func(*api.Backup) bool { return w.now.Sub(today) > 10*time.Minute })
	if at := b.Status.Pod("cas-0"); at.Phase != api.PodBackupRunning || at.Tries != 1 || !strings.HasPrefix(at.Message, "has stored nothing yet, and "+refuses) {
		t.Errorf("%+v", at)
	}
	if n := said.asked.Load(); n != 1 {
		t.Errorf("the storage was asked %d times", n)
	}
}

// Where Medusa itself says that it has no credentials, its pods end after ten minutes and
// not after a day; a storage that does not answer is waited for.
func TestNoCredentials(t *testing.T) {
	w := newWhole(t, 2)
	w.storage.SetTrouble(errors.New("NoCredentialsError: Unable to locate credentials"))
	w.ask(func(*api.Backup) {})
	b := w.run(over_)
	if took := w.now.Sub(today); took < defaultAbsentLimit || took > defaultAbsentLimit+time.Minute {
		t.Errorf("it took %v", took)
	}
	if b.Status.Phase != api.BackupFailed || !strings.Contains(b.Status.Message, "Unable to locate credentials") {
		t.Errorf("%s: %s", b.Status.Phase, b.Status.Message)
	}
	w = newWhole(t, 1)
	w.storage.SetTrouble(errors.New("no such host"))
	w.ask(func(*api.Backup) {})
	b = w.run(func(*api.Backup) bool { return w.now.Sub(today) > time.Hour })
	if b.Status.Phase.Final() || !strings.Contains(b.Status.Message, "no such host") {
		t.Errorf("%s: %s", b.Status.Phase, b.Status.Message)
	}
}

// What a pod that waits says of itself, and what is said of its storage, can be read.
func TestWaitsAreToldInSentences(t *testing.T) {
	for message, want := range map[string]string{
		refuses + "because":               "cas-0: " + refuses + "because",
		"its sidecar does not answer":     "cas-0: its sidecar does not answer",
		"is not there, and is waited for": "cas-0 is not there, and is waited for",
	} {
		c := &course{b: &api.Backup{}}
		c.status.Pods = []api.PodBackup{{Name: "cas-0", Phase: api.PodBackupWaiting, Message: message}}
		if c.tell(); !strings.HasSuffix(c.status.Message, "; "+want) {
			t.Errorf("%s: %s", message, c.status.Message)
		}
	}
}

// A backup that goes well has the storage asked for nothing but what is in it at the end.
func TestNobodyIsBlamed(t *testing.T) {
	w := newWhole(t, 3)
	said := &wrong{asker: w.r.ask}
	w.r.ask = said
	w.ask(func(*api.Backup) {})
	b := w.run(func(b *api.Backup) bool {
		for name, p := range w.r.book.of(types.NamespacedName{Namespace: "ns", Name: "b"}, "b").pods {
			if p.blamed != 0 {
				t.Errorf("%s is blamed", name)
			}
		}
		return over_(b)
	})
	if b.Status.Phase != api.BackupComplete || said.asked.Load() > 3 {
		t.Errorf("%s, asked %d times", b.Status.Phase, said.asked.Load())
	}
}

// So many are asked at a time; who finds no place is asked later, and what was said of a
// try before is not said of this one.
func TestFewAreBlamedAtOnce(t *testing.T) {
	said := &wrong{}
	said.says.Store(new(answer(wrongKey)))
	r := newReconciler(nil, said, nil, nil, Options{Clock: func() time.Time { return today }})
	at := &api.PodBackup{Name: "cas-0", UID: "1", Phase: api.PodBackupRunning, Tries: 2, Started: stamp(today)}
	p := &note{uid: "1", pod: bare("cas-0"), try: 2, blamed: 1, given: true, blame: trouble{"before", true}}
	for range blamers {
		r.blaming <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &api.Backup{}
	if got := r.blame(ctx, b, at, p, seen{sight: idleSight}); got.said != "" || said.asked.Load() != 0 {
		t.Errorf("asked %d times: %+v", said.asked.Load(), got)
	}
	<-r.blaming
	for range 2 {
		if got := r.blame(t.Context(), b, at, p, seen{sight: idleSight}); got.said != wrongKey || !got.refused || said.asked.Load() != 1 || len(r.blaming) != blamers-1 {
			t.Errorf("asked %d times, %d places are taken: %+v", said.asked.Load(), len(r.blaming), got)
		}
	}
}

// What was known of a pod's storage is not known of the pod that follows it.
func TestAnotherPodIsNotBlamed(t *testing.T) {
	p := &note{uid: "1", try: 1, blamed: 1, blame: trouble{"before", true}, refused: today}
	next := bare("cas-0")
	next.UID = "2"
	p.keep(next, today)
	s := seen{sight: troubledSight, trouble: trouble{"now", true}}
	if p.refuses(&s, today.Add(time.Hour)); !s.refusedSince.Equal(today.Add(time.Hour)) || p.blamed != 0 || p.blame.said != "" {
		t.Errorf("refused since %v: %+v", s.refusedSince, p)
	}
}

func TestTroubleOf(t *testing.T) {
	call := func(text string) error { return &sidecar.CallError{Code: codes.Unknown, Message: text} }
	for _, c := range []struct {
		err     error
		said    string
		refused bool
	}{
		{answer(wrongKey), wrongKey, true},
		{answer("ClientError: An error occurred (403) when calling the HeadObject operation: Forbidden"), "ClientError: An error occurred (403) when calling the HeadObject operation: Forbidden", true},
		{answer("ClientError: An error occurred (NoSuchBucket) when calling it"), "ClientError: An error occurred (NoSuchBucket) when calling it", true},
		{answer("ClientResponseError: 401, message='Unauthorized', url='https://x'"), "ClientResponseError: 401, message='Unauthorized', url='https://x'", true},
		{answer("ClientAuthenticationError: Server failed to authenticate the request"), "ClientAuthenticationError: Server failed to authenticate the request", true},
		{answer("the storage Secret holds no credentials that can be read"), "the storage Secret holds no credentials that can be read", true},
		{call("Unexpected <class 'AttributeError'>: 'NoneType' object has no attribute 'access_key'"), "the storage Secret holds no credentials that can be read", true},
		{call("Unexpected <class 'botocore.exceptions.NoCredentialsError'>: Unable to locate credentials"), "Unexpected <class 'botocore.exceptions.NoCredentialsError'>: Unable to locate credentials", true},
		{answer("ClientError: An error occurred (SlowDown) when calling it"), "ClientError: An error occurred (SlowDown) when calling it", false},
		{answer("ClientError: An error occurred (404) when calling it"), "ClientError: An error occurred (404) when calling it", false},
		{answer("EndpointConnectionError: Could not connect to https://s3:403/"), "EndpointConnectionError: Could not connect to https://s3:403/", false},
		{errors.New("two\nlines"), "two lines", false},
	} {
		if got := troubleOf(c.err); got.said != c.said || got.refused != c.refused {
			t.Errorf("%v is %+v", c.err, got)
		}
	}
}
