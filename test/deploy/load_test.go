package deploy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	loadPods = 1000
	loadRate = 50. // pods a second
	// admissionLimit is a bound of the API server's histogram, in seconds.
	admissionLimit = 0.025
	rolls, kills   = 3, 2
	rotations      = 2
)

// TestLoadSelfSigned: with our own CA nothing is lost, whatever is replaced
// meanwhile.
func TestLoadSelfSigned(t *testing.T) {
	// The lives are so short that the CA and what it signs are renewed twice.
	under(t, []string{"certificates.mode=self-signed", "certificates.caValidity=100s", "certificates.validity=60s"}, nil)
}

// TestLoadCertManager: the same with cert-manager's Secrets.
func TestLoadCertManager(t *testing.T) {
	under(t, []string{"certificates.mode=cert-manager"}, (*StandIn).Renew)
}

// under creates pods while the webhook is rolled, the leader killed and the
// certificate rotated. rotate, where set, makes another certificate; else it
// comes by itself.
func under(t *testing.T, values []string, rotate func(*StandIn, context.Context) error) {
	e, ctx := start(t, 20*time.Minute)
	step := stepper(t)
	var standIn *StandIn
	if rotate != nil {
		var err error
		standIn, err = e.CertManager(ctx)
		step("cert-manager's stand-in", err)
	}
	// The API server and all else share two cores with the webhook here.
	step("installed", e.InstallShortLived(ctx, append(values, "webhook.resources.requests.cpu=500m")...))
	step("namespace", e.Namespace(ctx, "load", nil))
	step("injected", e.awaitInjection(ctx, "load"))
	before, err := e.AdmissionTimes(ctx)
	step("before", err)

	done := make(chan struct{})
	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() error {
		return repeat(rolls, "rolling the webhook", func() error { return e.Roll(workCtx) })
	})
	work.Go(func() error {
		return repeat(kills, "killing the leader", func() error { return e.KillLeader(workCtx) })
	})
	work.Go(func() error {
		return repeat(rotations, "rotating the certificate", func() error {
			served, err := e.Served(workCtx)
			if err == nil && rotate != nil {
				err = rotate(standIn, workCtx)
			}
			if err != nil {
				return err
			}
			return e.AwaitRotation(workCtx, served)
		})
	})
	var disturbed error
	go func() {
		disturbed = work.Wait()
		close(done)
	}()
	load, err := e.Load(ctx, "load", loadPods, loadRate, done)
	step("loaded", err)
	step("disturbed", disturbed)
	after, err := e.AdmissionTimes(ctx)
	step("after", err)

	times := after.Since(before)
	t.Logf("admissions: %s", times)
	figure(t, "%d pods at %.0f/s, %d rolls, %d kills of the leader, %d rotations: %d without injection, %d refused; %.2f %% of admissions within %.0f ms",
		load.Created, loadRate, rolls, kills, rotations, len(load.Uninjected), len(load.Refused), 100*times.Within(admissionLimit), 1000*admissionLimit)
	if len(load.Refused) > 0 {
		t.Errorf("refused: %s", few(load.Refused))
	}
	if len(load.Uninjected) > 0 {
		t.Errorf("without injection: %s", few(load.Uninjected))
	}
	if times.Total < loadPods {
		t.Errorf("the API server counts %.0f admissions", times.Total)
	}
	if judged() && times.Within(admissionLimit) < 0.99 {
		t.Errorf("the 99th percentile is over %.0f ms", 1000*admissionLimit)
	}
}

func repeat(times int, what string, do func() error) error {
	for n := range times {
		if err := do(); err != nil {
			return fmt.Errorf("%s, time %d: %w", what, n+1, err)
		}
	}
	return nil
}
