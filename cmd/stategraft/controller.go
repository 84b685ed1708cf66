package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/stategraft/stategraft/operations/adopt"
	"github.com/stategraft/stategraft/operations/certificates"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/operations/cycle"
	"github.com/stategraft/stategraft/operations/expose"
	"github.com/stategraft/stategraft/operations/heal"
	"github.com/stategraft/stategraft/operations/lookup"
	"github.com/stategraft/stategraft/operations/replay"
	"github.com/stategraft/stategraft/operations/request"
	"github.com/stategraft/stategraft/operations/restore"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/webhook"
)

// leaseName is the Lease in the namespace of Stategraft by which the replicas
// agree on who leads.
const leaseName = "stategraft-controller"

type controllerFlags struct {
	commonFlags
	certificates certificates.Options
	mode         string
	config       string
	healAfter    time.Duration
	leaderElect  bool
	adopt        bool
	adopts       adopt.Options // how many, and how often
}

func controllerCommand() *cobra.Command {
	var f controllerFlags
	command := &cobra.Command{
		Use:   "controller",
		Short: "Look after certificates and what was injected",
		Args:  cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			return control(f)
		},
	}
	f.add(command)
	set := command.Flags()
	set.StringVar(&f.mode, "certificates", string(certificates.SelfSigned), "where certificates come from: self-signed, an authority of our own, or cert-manager")
	set.StringVar(&f.certificates.WebhookService, "webhook-service", certificates.DefaultWebhookService, "name of the webhook's Service (self-signed)")
	set.StringVar(&f.certificates.WebhookConfiguration, "webhook-configuration", certificates.DefaultWebhookConfiguration, "name of the MutatingWebhookConfiguration whose caBundle is kept (self-signed)")
	set.DurationVar(&f.certificates.CAValidity, "ca-validity", certificates.DefaultCAValidity, "life of an authority (self-signed); a new one takes over when two thirds are over")
	set.DurationVar(&f.certificates.Validity, "certificate-validity", certificates.DefaultValidity, "life of a certificate; it is renewed when two thirds are over")
	set.StringVar(&f.config, "config", "", "the webhook's configuration file, by which pods without sidecar are judged; followed when it changes")
	set.DurationVar(&f.healAfter, "heal-after", heal.DefaultAfter, "how long an injected container may keep a pod from being ready before it is made harmless")
	set.BoolVar(&f.adopt, "adopt", true, "give pods that run their containers where annotation stategraft.io/adopt asks for it")
	set.IntVar(&f.adopts.PerNode, "adopt-per-node", adopt.DefaultPerNode, "pods of a node that are adopted at a time")
	set.IntVar(&f.adopts.InAll, "adopt-in-all", adopt.DefaultInAll, "pods that are adopted at a time")
	set.IntVar(&f.adopts.PerDay, "adopt-per-day", adopt.DefaultPerDay, "times that containers are added to a running pod within 24 hours")
	set.BoolVar(&f.leaderElect, "leader-elect", true, "agree with other replicas on who acts; false where there is only one")
	return command
}

// control runs the controllers until it is asked to end. Nobody calls it, so
// there is nothing to drain.
func control(f controllerFlags) error {
	log := f.logger()
	end := onSignal(0, log)
	rest, err := apiServer()
	if err != nil {
		return err
	}
	namespace, err := f.namespace()
	if err != nil {
		return err
	}
	f.certificates.Mode, f.certificates.Namespace = certificates.Mode(f.mode), namespace
	if err := f.certificates.Check(); err != nil {
		return err
	}
	configuration, err := webhook.OpenConfig(f.config, log)
	if err != nil {
		return err
	}
	version, err := serverVersion(rest, log)
	if err != nil {
		return err
	}
	lessGarbage()
	// Of the pods only the injected ones are kept, and little of each.
	objects := heal.ByObject()
	objects[&corev1.ConfigMap{}] = webhook.HeldBackCache(namespace)
	limit := shutdownLimit
	known, err := webhookScheme() // the controllers' too
	if err != nil {
		return err
	}
	mgr, err := manager.New(rest, manager.Options{
		Scheme:                  known,
		Logger:                  log,
		Cache:                   cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: objects},
		Metrics:                 metricsserver.Options{BindAddress: f.metrics},
		HealthProbeBindAddress:  f.health,
		GracefulShutdownTimeout: &limit,

		LeaderElection:          f.leaderElect,
		LeaderElectionID:        leaseName,
		LeaderElectionNamespace: namespace,
		// The next one need not wait for the lease to run out. It is safe, as this
		// process ends with the manager.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	for _, runnable := range []manager.Runnable{newLeader(), configuration, version} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("adding to the manager: %w", err)
		}
	}
	if err := f.controllers(end.ctx, mgr, namespace, configuration, version); err != nil {
		return err
	}
	// Who stands by is ready too, to take over.
	if err := checks(mgr, synced(mgr)); err != nil {
		return err
	}
	return mgr.Start(end.ctx)
}

// controllers adds all that run.
func (f controllerFlags) controllers(ctx context.Context, mgr manager.Manager, namespace string, configuration *webhook.ConfigFile, version *webhook.ServerVersion) error {
	authority, err := certificates.NewSource(mgr, f.certificates)
	if err != nil {
		return err
	}
	f.certificates.Source = authority
	if err := certificates.Add(mgr, f.certificates); err != nil {
		return err
	}
	inbox := request.NewInbox()
	nodes := sidecar.New(authority)
	if err := restores(mgr, namespace, nodes, inbox); err != nil {
		return err
	}
	if err := backups(mgr, namespace, nodes); err != nil {
		return err
	}
	if err := heal.Add(mgr, heal.Options{Namespace: namespace, After: f.healAfter}); err != nil {
		return err
	}
	if err := errors.Join(
		expose.Add(mgr, expose.Options{Namespace: namespace}),
		cycle.Add(mgr, cycle.Options{Namespace: namespace}),
	); err != nil {
		return fmt.Errorf("adding what looks after addresses and configurations: %w", err)
	}
	held, err := webhook.WatchHeldBack(ctx, mgr.GetCache(), namespace, mgr.GetLogger().WithName("held-back"))
	if err != nil {
		return err
	}
	if f.adopt {
		f.adopts.Namespace, f.adopts.Config, f.adopts.NativeSidecars, f.adopts.HeldBack = namespace, configuration.Config, version.Native, held.Find
		if err := adopt.Add(mgr, f.adopts); err != nil {
			return fmt.Errorf("adding what adopts running pods: %w", err)
		}
	}
	injected, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching injected pods: %w", err)
	}
	return coverage.Add(mgr, coverage.Options{
		Namespace: namespace, Config: configuration.Config, NativeSidecars: version.Native, HeldBack: held.Find,
		WebhookConfiguration: f.certificates.WebhookConfiguration, Injected: injected,
		RestoreAsked: func(pod *metav1.PartialObjectMetadata) { inbox.Asked(pod) },
	})
}

// restores adds what restores pods, and what makes Restores of annotations. Both wait
// for the CustomResourceDefinition; nothing else waits for them.
func restores(mgr manager.Manager, namespace string, nodes *sidecar.Client, inbox *request.Inbox) error {
	lookups := lookup.New(mgr.GetClient(), mgr.GetAPIReader(), nodes)
	if err := restore.Add(mgr, restore.Options{Namespace: namespace, Nodes: nodes, Replays: nodes, Lookups: lookups}); err != nil {
		return fmt.Errorf("adding the controller of Restores: %w", err)
	}
	if err := replay.Add(mgr, replay.Options{Nodes: nodes}); err != nil {
		return fmt.Errorf("adding what follows replays: %w", err)
	}
	if err := request.Add(mgr, request.Options{Namespace: namespace, Inbox: inbox}); err != nil {
		return fmt.Errorf("adding the controller of requests: %w", err)
	}
	return nil
}

// lessGarbage trades processor time, of which this process needs little, for
// memory, of which the first list of a large cluster's pods needs most.
func lessGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
