package deploy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/test/cluster"
)

// The objects of the release.
const (
	webhookDeployment = "stategraft-webhook"
	lease             = "stategraft-controller"
	ownPods           = "app.kubernetes.io/name=stategraft,app.kubernetes.io/component="
)

// Roll replaces all pods of the webhook, as an upgrade does, and waits until it
// is over.
func (e *Env) Roll(ctx context.Context) error {
	deployments := e.Client.AppsV1().Deployments(Home)
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"test.stategraft.io/rolled":%q}}}}}`, time.Now().Format(time.RFC3339Nano))
	if _, err := deployments.Patch(ctx, webhookDeployment, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("rolling the webhook: %w", err)
	}
	return e.await(ctx, 2*time.Minute, "the webhook to be rolled", func() (bool, error) {
		d, err := deployments.Get(ctx, webhookDeployment, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		want, s := *d.Spec.Replicas, d.Status
		return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == want && s.AvailableReplicas == want && s.Replicas == want, nil
	})
}

// KillLeader kills the leading controller's container with SIGKILL and waits
// until there is a leader again.
func (e *Env) KillLeader(ctx context.Context) error {
	before, err := e.leader(ctx)
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(before.holder, "_")
	pod, err := e.Client.CoreV1().Pods(Home).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("looking for the leader: %w", err)
	}
	if err := cluster.KillContainer(pod.Status.ContainerStatuses[0].ContainerID); err != nil {
		return err
	}
	return e.await(ctx, 2*time.Minute, "another leader", func() (bool, error) {
		now, err := e.leader(ctx)
		return err == nil && now.holder != "" && now.holder != before.holder, nil
	})
}

type leadership struct{ holder string }

func (e *Env) leader(ctx context.Context) (leadership, error) {
	l, err := e.Client.CoordinationV1().Leases(Home).Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return leadership{}, fmt.Errorf("reading the lease: %w", err)
	}
	if l.Spec.HolderIdentity == nil {
		return leadership{}, errors.New("nobody leads")
	}
	return leadership{*l.Spec.HolderIdentity}, nil
}

// Served are the serial numbers of the certificates that the webhook's ready
// replicas serve.
func (e *Env) Served(ctx context.Context) (map[string]bool, error) {
	pods, err := e.Client.CoreV1().Pods(Home).List(ctx, metav1.ListOptions{LabelSelector: ownPods + "webhook"})
	if err != nil {
		return nil, err
	}
	served := map[string]bool{}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil || pod.Status.PodIP == "" {
			continue
		}
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true}} // it is only read
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, "9443"))
		if err != nil {
			continue // not yet, or no longer
		}
		for _, c := range conn.(*tls.Conn).ConnectionState().PeerCertificates[:1] {
			served[c.SerialNumber.String()] = true
		}
		conn.Close()
	}
	return served, nil
}

// AwaitRotation waits until all replicas serve certificates that none served
// before.
func (e *Env) AwaitRotation(ctx context.Context, before map[string]bool) error {
	return e.await(ctx, 3*time.Minute, "the webhook to serve another certificate", func() (bool, error) {
		now, err := e.Served(ctx)
		if err != nil {
			return false, err
		}
		for serial := range now {
			if before[serial] {
				return false, nil
			}
		}
		return len(now) > 0, nil
	})
}
