package adopt

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/adopt/simulated"
)

// Sidecars answer in the adopted pods of a namespace as their Medusas do: each with what was
// in the Secret of the sidecars when the newest of its containers began to run.
type Sidecars struct {
	town    *Town
	storage *sidecartest.Storage
	running map[types.UID]*answering
	cancel  context.CancelFunc
	done    chan struct{}
	failed  error // the last time that one could not be started; read once done
}

// answering is what answers in a pod.
type answering struct {
	number int // of the container
	medusa *sidecartest.Medusa
	agent  *sidecartest.Server
}

// Answer has the pods of a namespace answer from when they are adopted on. nodes are their
// names.
func (t *Town) Answer(ctx context.Context, nodes ...string) *Sidecars {
	s := &Sidecars{town: t, storage: sidecartest.NewStorage(nodes...), running: map[types.UID]*answering{}, done: make(chan struct{})}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(s.done)
		for ctx.Err() == nil {
			if err := s.look(ctx); ctx.Err() == nil {
				s.failed = err
			}
			pause(ctx, 50*time.Millisecond)
		}
	}()
	return s
}

// Stop ends all of them. The error says why one does not answer as it should, if any.
func (s *Sidecars) Stop() error {
	s.cancel()
	<-s.done
	for _, a := range s.running {
		a.close()
	}
	return s.failed
}

func (a *answering) close() {
	a.medusa.Close()
	a.agent.Close()
}

func (s *Sidecars) look(ctx context.Context) error {
	pods, err := s.town.Pods(ctx)
	if err != nil {
		return err
	}
	var failed error
	for i := range pods {
		part := serves(&pods[i])
		before := s.running[pods[i].UID]
		if part == nil || before != nil && before.number == part.Number {
			continue
		}
		if before != nil {
			before.close()
			delete(s.running, pods[i].UID)
		}
		now, err := s.begin(ctx, &pods[i], part)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		s.running[pods[i].UID] = now
	}
	return failed
}

// serves is the newest Medusa of a pod that runs; nil for none.
func serves(pod *corev1.Pod) (newest *adopted.Part) {
	parts := adopted.Parts(pod)
	for i := range parts {
		if p := &parts[i]; p.Role == patches.RoleMedusa && p.State() == adopted.Running {
			newest = p
		}
	}
	return newest
}

func (s *Sidecars) begin(ctx context.Context, pod *corev1.Pod, part *adopted.Part) (*answering, error) {
	secret, err := s.town.Client.CoreV1().Secrets(pod.Namespace).Get(ctx, api.SecretGRPC, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the pair of the sidecars: %w", err)
	}
	pair := sidecartest.Pair{Cert: secret.Data["tls.crt"], Key: secret.Data["tls.key"], CA: secret.Data["ca.crt"]}
	var ports [2]int
	for i, name := range []string{"STATEGRAFT_GRPC_PORT", patches.EnvNodePort} {
		if ports[i], err = strconv.Atoi(part.Env(name)); err != nil {
			return nil, fmt.Errorf("reading variable %s of %s: %w", name, part.Container.Name, err)
		}
	}
	of := sidecartest.Node{Name: pod.Name, Storage: s.storage, Alone: true}
	a := &answering{number: part.Number}
	if a.medusa, err = sidecartest.StartMedusa(pod.Status.PodIP, ports[0], pair, of); err != nil {
		return nil, err
	}
	if a.agent, err = sidecartest.Start(pod.Status.PodIP, ports[1], pair, of.Backend()); err != nil {
		a.medusa.Close()
		return nil, err
	}
	return a, nil
}

// handover has a container end well, as it is asked to, once a newer one of its role runs.
func handover(pod *corev1.Pod, c *corev1.EphemeralContainer) simulated.Play {
	parts := adopted.Parts(pod)
	for i := range parts {
		p := &parts[i]
		if p.Container.Name != c.Name || p.Role == patches.RoleAgent {
			continue
		}
		for j := range parts[i+1:] {
			if newer := &parts[i+1+j]; newer.Role == p.Role && newer.State() == adopted.Running {
				return simulated.Play{Runs: time.Nanosecond}
			}
		}
	}
	return simulated.Play{After: 200 * time.Millisecond}
}

// BackUp makes a Backup of a StatefulSet and waits for its end.
func (t *Town) BackUp(ctx context.Context, name, set string) error {
	text := fmt.Sprintf("apiVersion: stategraft.io/v1alpha1\nkind: Backup\nmetadata: {name: %s}\nspec: {pods: {workload: {kind: StatefulSet, name: %s}}}\n", name, set)
	if _, err := t.Kubectl(ctx, strings.NewReader(text), "-n", t.Namespace, "create", "-f", "-"); err != nil {
		return fmt.Errorf("making Backup %s: %w", name, err)
	}
	return await(ctx, time.Minute, "Backup "+name+" to be complete", func(ctx context.Context) (bool, error) {
		got, err := t.Kubectl(ctx, nil, "-n", t.Namespace, "get", "backup", name, "-o", "jsonpath={.status.phase}: {.status.message}")
		if phase, _, _ := strings.Cut(got, ":"); err == nil && phase != string(api.BackupComplete) {
			err = fmt.Errorf("it is %s", got)
		}
		return err == nil, err
	})
}
