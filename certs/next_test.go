package certs

import (
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRotation walks through a whole replacement of an authority.
func TestRotation(t *testing.T) {
	w := healthy(t, noon)
	first := w.state(t)
	if first.Current.None() || !first.Next.None() || len(first.Former) != 0 || first.Serving.None() {
		t.Fatalf("after the installation: %+v", first)
	}
	if err := w.trusts(w.bundle, first.Serving, noon); err != nil {
		t.Fatal(err)
	}

	// The pair is renewed by the same authority.
	leafDue := DueAt(first.Serving.Certificate)
	if at := w.settle(t, leafDue.Add(-time.Minute)); at.Before(leafDue) || at.After(leafDue.Add(time.Second)) {
		t.Errorf("to come back at %s; the pair is due at %s", at, leafDue)
	}
	if got := w.state(t); !got.Serving.Certificate.Equal(first.Serving.Certificate) {
		t.Error("the pair was renewed before it was due")
	}
	w.settle(t, leafDue)
	renewed := w.state(t)
	if renewed.Serving.Certificate.Equal(first.Serving.Certificate) || !renewed.Serving.SignedBy(first.Current.Certificate) || !renewed.Next.None() {
		t.Errorf("the pair was not renewed by its authority: %v", w.changes)
	}

	// The next authority is published, and does not sign yet.
	now := DueAt(first.Current.Certificate)
	w.settle(t, now)
	published := w.state(t)
	if published.Next.None() || !published.Current.Certificate.Equal(first.Current.Certificate) || !published.Published.Equal(now) {
		t.Fatalf("the next authority is not published: %v", w.changes)
	}
	if !published.Serving.SignedBy(first.Current.Certificate) {
		t.Error("the next authority signs before everybody trusts it")
	}
	if bundle, _ := parseBundle(w.bundle); !contains(bundle, first.Current.Certificate) || !contains(bundle, published.Next.Certificate) {
		t.Error("the bundle does not hold both authorities")
	}

	// After the margin it signs; the former one is trusted still.
	margin := w.policy.margin()
	w.settle(t, now.Add(margin-time.Second))
	if got := w.state(t); got.Next.None() {
		t.Error("the next authority signs before the margin is over")
	}
	now = now.Add(margin)
	w.settle(t, now)
	switched := w.state(t)
	if !switched.Current.Certificate.Equal(published.Next.Certificate) || !switched.Next.None() || !switched.Serving.SignedBy(switched.Current.Certificate) {
		t.Fatalf("the next authority does not sign: %v", w.changes)
	}
	if !contains(switched.Former, first.Current.Certificate) || w.trusts(w.bundle, renewed.Serving, now) != nil && now.Before(renewed.Serving.Certificate.NotAfter) {
		t.Error("the former authority is not trusted any more, while it is met")
	}
	if key := fmt.Sprintf("%s", w.authority); strings.Contains(key, string(first.Current.keyPEM)) {
		t.Error("the former authority's key is still in the Secret")
	}

	// And dropped once nobody meets it.
	w.settle(t, now.Add(w.policy.keep()-time.Second))
	if len(w.state(t).Former) != 1 {
		t.Error("the former authority was dropped too early")
	}
	w.settle(t, now.Add(w.policy.keep()))
	if got := w.state(t); len(got.Former) != 0 || !got.Switched.IsZero() {
		t.Errorf("the former authority stays: %v", w.changes)
	}
	if len(w.problems) != 0 {
		t.Errorf("problems: %v", w.problems)
	}
}

// TestNotPublished has somebody empty the configuration's bundle all the time.
// The next authority does not sign, until the present one ends: then nothing can
// be lost any more.
func TestNotPublished(t *testing.T) {
	w := healthy(t, noon)
	first := w.state(t).Current
	due := DueAt(first.Certificate)
	for now := due; now.Before(first.Certificate.NotAfter); now = now.Add(time.Hour) {
		w.bundle = nil
		w.run(t, now, -1)
	}
	if got := w.state(t); !got.Current.Certificate.Equal(first.Certificate) || got.Next.None() {
		t.Errorf("an authority that nobody trusts signs: %v", w.changes)
	}
	now := first.Certificate.NotAfter.Add(time.Second)
	w.bundle = nil
	w.settle(t, now)
	if got := w.state(t); got.Current.Certificate.Equal(first.Certificate) || w.trusts(w.bundle, got.Serving, now) != nil {
		t.Errorf("it does not sign after the other's end: %v", w.changes)
	}
}

// TestRepair damages the Secrets. Everything is made good, and where the pair
// that is served was whole, those who call go on trusting it.
func TestRepair(t *testing.T) {
	cut := func(data map[string][]byte, key string) { data[key] = data[key][:len(data[key])/2] }
	another := newCA(t, 300*time.Hour, noon)
	for name, test := range map[string]struct {
		damage  func(*world)
		after   time.Duration // how much later it is looked at
		problem string        // in a problem that is said; empty for none
		why     string        // in a change's reason
		keeps   bool          // those who call trust the served pair all the while
	}{
		"nothing":                  {damage: func(*world) {}, keeps: true},
		"authority removed":        {damage: func(w *world) { w.authority = nil }, why: "there is none", keeps: true},
		"authority and bundles":    {damage: func(w *world) { w.authority = nil; delete(w.serving, KeyCA) }, why: "there is none", keeps: true},
		"authority emptied":        {damage: func(w *world) { w.authority = map[string][]byte{KeyCert: {}, KeyKey: {}} }, why: "there is none", keeps: true},
		"authority cut":            {damage: func(w *world) { cut(w.authority, KeyCert) }, problem: "the authority: ", why: "there is none", keeps: true},
		"authority's key cut":      {damage: func(w *world) { cut(w.authority, KeyKey) }, problem: "the authority: ", why: "there is none", keeps: true},
		"another's key":            {damage: func(w *world) { w.authority[KeyKey] = another.keyPEM }, problem: "does not match", why: "there is none", keeps: true},
		"another authority":        {damage: func(w *world) { w.authority[KeyCert], w.authority[KeyKey] = another.certPEM, another.keyPEM }, why: "a former authority", keeps: true},
		"a pair as authority":      {damage: func(w *world) { w.authority[KeyCert], w.authority[KeyKey] = w.serving[KeyCert], w.serving[KeyKey] }, problem: "is not an authority's", keeps: true},
		"bundle cut":               {damage: func(w *world) { cut(w.authority, KeyCA) }, problem: "bundle of authorities: ", keeps: true},
		"a pair in the bundle":     {damage: func(w *world) { w.authority[KeyCA] = w.serving[KeyCert] }, problem: "is not an authority's", keeps: true},
		"rotation unreadable":      {damage: func(w *world) { w.authority[keyRotation] = []byte("{") }, problem: "state of the rotation", keeps: true},
		"next cut":                 {damage: func(w *world) { w.authority[keyNextCert] = []byte("-----BEGIN") }, problem: "the next authority", keeps: true},
		"serving removed":          {damage: func(w *world) { w.serving = nil }, why: "there is none"},
		"serving cut":              {damage: func(w *world) { cut(w.serving, KeyCert) }, problem: "the serving pair: ", why: "there is none"},
		"serving's key of another": {damage: func(w *world) { w.serving[KeyKey] = another.keyPEM }, problem: "does not match", why: "there is none"},
		"serving's bundle cut":     {damage: func(w *world) { cut(w.serving, KeyCA) }, problem: "serving pair's bundle: ", keeps: true},
		"serving signed by another": {damage: func(w *world) {
			i, err := Issue(another, w.policy.serving(), noon)
			if err != nil {
				t.Fatal(err)
			}
			w.serving[KeyCert], w.serving[KeyKey] = i.CertPEM, i.KeyPEM
		}, why: "unknown authority"},
		"both removed":        {damage: func(w *world) { w.authority, w.serving = nil, nil }, why: "there is none"},
		"bundle emptied":      {damage: func(w *world) { w.bundle = nil }},
		"bundle of another":   {damage: func(w *world) { w.bundle = another.certPEM }},
		"bundle is no PEM":    {damage: func(w *world) { w.bundle = []byte("\xff") }},
		"service renamed":     {damage: func(w *world) { w.policy.Service = "hook" }, why: "hook.stategraft.svc"},
		"all expired":         {damage: func(*world) {}, after: 1000 * time.Hour, why: "it expired at"},
		"clock set back":      {damage: func(*world) {}, after: -1000 * time.Hour, why: "it is not valid before"},
		"clock a minute back": {damage: func(*world) {}, after: -time.Minute, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := healthy(t, noon)
			served, before := w.state(t).Serving, w.bundle
			test.damage(w)
			now := noon.Add(test.after)
			w.run(t, now, -1)
			said, why := fmt.Sprint(w.problems), fmt.Sprint(w.changes)
			if (len(w.problems) > 0) != (test.problem != "") || !strings.Contains(said, test.problem) {
				t.Errorf("said %s, want %q", said, test.problem)
			}
			if test.keeps && string(w.serving[KeyCert]) == string(served.CertPEM) {
				for _, bundle := range [][]byte{before, w.bundle} {
					if err := w.trusts(bundle, served, now); err != nil {
						t.Errorf("the pair that is served is not trusted during the repair: %v", err)
					}
				}
			} else if test.keeps {
				t.Errorf("the pair was signed anew: %s", why)
			}
			// The margin passes, and more.
			for range 10 {
				w.settle(t, now)
				now = now.Add(w.policy.margin())
			}
			w.settle(t, now.Add(w.policy.keep()))
			why = fmt.Sprint(w.changes)
			if !strings.Contains(why, test.why) || test.why == "" && test.problem == "" && len(w.changes) > 0 {
				t.Errorf("changed %s, want for %q", why, test.why)
			}
			got := w.state(t)
			if len(got.Former) > 0 || !got.Next.None() || !got.Serving.SignedBy(got.Current.Certificate) {
				t.Errorf("not repaired: %s", why)
			}
			if err := w.trusts(w.bundle, got.Serving, now); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAdopt trusts nobody for standing in a bundle: only who signed the pair that
// is served.
func TestAdopt(t *testing.T) {
	w := healthy(t, noon)
	stranger := newCA(t, 300*time.Hour, noon)
	w.serving[KeyCA] = append(w.serving[KeyCA], stranger.certPEM...)
	w.bundle = append(w.bundle, stranger.certPEM...)
	w.authority = nil
	w.run(t, noon, -1)
	for where, text := range map[string][]byte{"configuration": w.bundle, "authority": w.authority[KeyCA], "serving pair": w.serving[KeyCA]} {
		if bundle, _ := parseBundle(text); contains(bundle, stranger.Certificate) {
			t.Errorf("a stranger is trusted in the bundle of the %s", where)
		}
	}
}

// TestStable writes nothing where nothing is due.
func TestStable(t *testing.T) {
	w := healthy(t, noon)
	for now := noon; now.Before(DueAt(w.state(t).Serving.Certificate)); now = now.Add(time.Hour) {
		if _, wrote := w.run(t, now, -1); wrote {
			t.Fatalf("wrote at %s: %v", now, w.changes)
		}
	}
}

func TestPolicyCheck(t *testing.T) {
	for name, test := range map[string]struct {
		policy Policy
		want   string
	}{
		"defaults":      {Policy{CAValidity: 43800 * time.Hour, Validity: 2160 * time.Hour}, ""},
		"seconds":       {Policy{CAValidity: 40 * time.Second, Validity: 15 * time.Second}, ""},
		"none":          {Policy{CAValidity: time.Hour}, "longer than zero"},
		"negative":      {Policy{CAValidity: -time.Hour, Validity: time.Hour}, "longer than zero"},
		"too long":      {Policy{CAValidity: time.Hour, Validity: 2 * time.Hour}, "longer than the authority"},
		"margin long":   {Policy{CAValidity: time.Hour, Validity: time.Hour, Margin: 30 * time.Minute}, "do not fit"},
		"kept too long": {Policy{CAValidity: time.Hour, Validity: time.Hour, Keep: time.Hour}, "do not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.policy.Check()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
	p := Policy{CAValidity: 43800 * time.Hour, Validity: 2160 * time.Hour}
	if p.margin() != 10*time.Minute || p.keep() != 24*time.Hour {
		t.Errorf("margin %s and keep %s; want 10 minutes and a day", p.margin(), p.keep())
	}
}

// FuzzParse reads damaged Secrets: it never panics, and one step later there is
// an authority that signs and a pair that those who call trust.
func FuzzParse(f *testing.F) {
	w := healthy(f, noon)
	w.settle(f, DueAt(w.state(f).Current.Certificate))
	a, s := w.authority, w.serving
	leaf := w.serving[KeyCert]
	f.Add(a[KeyCert], a[KeyKey], a[KeyCA], a[keyNextCert], a[keyNextKey], a[keyRotation], s[KeyCert], s[KeyKey], s[KeyCA], int64(0))
	f.Add([]byte(nil), a[KeyKey], a[KeyCA][:100], a[keyNextCert], a[KeyKey], []byte("{"), s[KeyCert], s[KeyKey], leaf, int64(200))
	f.Add(leaf, s[KeyKey], leaf, leaf, s[KeyKey], []byte(`{"published":"9999-01-01T00:00:00Z"}`), a[KeyCert], a[KeyKey], a[KeyCA], int64(-500))
	f.Fuzz(func(t *testing.T, cert, key, ca, nextCert, nextKey, times, servingCert, servingKey, servingCA []byte, hours int64) {
		now := noon.Add(time.Duration(hours%100_000) * time.Hour)
		w := &world{policy: testPolicy,
			authority: map[string][]byte{KeyCert: cert, KeyKey: key, KeyCA: ca, keyNextCert: nextCert, keyNextKey: nextKey, keyRotation: times},
			serving:   map[string][]byte{KeyCert: servingCert, KeyKey: servingKey, KeyCA: servingCA},
			bundle:    servingCA}
		at, _ := w.run(t, now, -1)
		if !at.After(now) {
			t.Errorf("to come back at %s, which is not after %s", at, now)
		}
		w.settle(t, now)
		got := w.state(t)
		if err := got.Current.Works(w.policy.serving(), now); err != nil {
			t.Errorf("the authority does not work: %v", err)
		}
		if err := w.trusts(w.bundle, got.Serving, now); err != nil {
			t.Errorf("the pair is not trusted: %v", err)
		}
		if _, err := x509.ParseCertificate(got.Serving.Certificate.Raw); err != nil {
			t.Error(err)
		}
	})
}
