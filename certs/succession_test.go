package certs

import (
	"crypto/x509"
	"testing"
	"time"
)

// TestSuccession has another replace the authority, at once, as cert-manager does.
func TestSuccession(t *testing.T) {
	p := testPolicy
	margin, keep := p.margin(), p.keep()
	first, second := newCA(t, 300*time.Hour, noon), newCA(t, 300*time.Hour, noon)
	// A renewed certificate of the first one's key.
	renewed := first
	template := *first.Certificate
	template.NotAfter = template.NotAfter.Add(time.Hour)
	certificate, err := sign(&template, &template, first.Certificate.PublicKey, first.Key)
	if err != nil {
		t.Fatal(err)
	}
	renewed.Certificate = certificate

	var s Succession
	for _, step := range []struct {
		name    string
		sees    CA
		after   time.Duration
		signer  CA
		trusted []CA
		until   time.Duration // zero for none
	}{
		{"the first one signs at once", first, 0, first, []CA{first}, 0},
		{"and so does its renewal", renewed, time.Hour, renewed, []CA{renewed}, 0},
		{"another is trusted first", second, 2 * time.Hour, renewed, []CA{second, renewed}, 2*time.Hour + margin},
		{"still", second, 2*time.Hour + margin - time.Second, renewed, []CA{second, renewed}, 2*time.Hour + margin},
		{"and signs later", second, 2*time.Hour + margin, second, []CA{second, renewed}, 0},
		{"the former is kept", second, 2*time.Hour + margin + keep, second, []CA{second, renewed}, 0},
		{"and dropped", second, 2*time.Hour + margin + keep + time.Second, second, []CA{second}, 0},
		{"back again", renewed, 200 * time.Hour, second, []CA{renewed, second}, 200*time.Hour + margin},
		{"the signer has expired", renewed, 300*time.Hour + time.Minute, renewed, []CA{renewed}, 0},
	} {
		got := s.Observe(step.sees, noon.Add(step.after), p)
		if !got.Signer.Certificate.Equal(step.signer.Certificate) {
			t.Errorf("%s: another signs", step.name)
		}
		var want []*x509.Certificate
		for _, ca := range step.trusted {
			want = append(want, ca.Certificate)
		}
		if string(got.Bundle()) != string(encodeBundle(want)) {
			t.Errorf("%s: %d are trusted, want %d, or in another order", step.name, len(got.Trusted), len(want))
		}
		if until := got.Until; until.IsZero() != (step.until == 0) || !until.IsZero() && !until.Equal(noon.Add(step.until)) {
			t.Errorf("%s: until %s, want %s after the start", step.name, until, step.until)
		}
	}
}
