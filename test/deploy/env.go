// Package deploy installs Stategraft as users do, with Helm, on a node that runs
// its pods, and tries what happens to it: rollouts, rotations, kills, registries
// without our images. See cmd/show.
package deploy

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
	"github.com/stategraft/stategraft/test/images"
)

// Environment variables of the tests: they skip unless EnabledEnv is "1";
// LogsEnv is a folder for what is kept of failed ones; with TimesEnv "print"
// lengths of time are not held against their limits.
const (
	EnabledEnv = "STATEGRAFT_DEPLOY"
	LogsEnv    = "STATEGRAFT_DEPLOY_LOGS"
	TimesEnv   = "STATEGRAFT_DEPLOY_TIMES"
)

// Home is the namespace of the release, and Release its name.
const (
	Home    = "stategraft"
	Release = "stategraft"
)

//go:embed manifests
var embedded embed.FS

// Env is a cluster to install Stategraft in.
type Env struct {
	*cluster.ControlPlane
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Root    string // the repository's folder

	helm, cli, dir string
	log            io.Writer
}

// Start starts a control plane, with a node where node is set, and loads the
// images. Nothing of Stategraft is installed. The caller has to call Stop.
func Start(ctx context.Context, log io.Writer, node bool) (_ *Env, err error) {
	programs := append(cluster.ControlPlanePrograms(), cluster.Helm)
	if node {
		programs = append(programs, cluster.NodePrograms()...)
		if err := cluster.InstallNode(ctx, log); err != nil {
			return nil, err
		}
	}
	bin, err := cluster.Build(ctx, log, programs...)
	if err != nil {
		return nil, err
	}
	e := &Env{helm: filepath.Join(bin, cluster.Helm), log: log}
	if e.Root, err = rigged.Root(ctx); err != nil {
		return nil, err
	}
	if e.dir, err = os.MkdirTemp("", "stategraft-deploy-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
		}
	}()
	e.cli = filepath.Join(e.dir, "kubectl-stategraft")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", e.cli, "./cmd/kubectl-stategraft")
	build.Dir = e.Root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building kubectl-stategraft: %w: %s", err, out)
	}
	var archives []string
	if node {
		if archives, err = images.Build(ctx, log, images.Server, images.Agent); err != nil {
			return nil, err
		}
	}
	if e.ControlPlane, err = cluster.Start(ctx, cluster.Options{Log: log, Node: node}); err != nil {
		return nil, err
	}
	if err := e.LoadImages(ctx, archives...); err != nil {
		return nil, err
	}
	config := e.Config()
	config.WarningHandler = rest.NoWarnings{}
	config.QPS, config.Burst = 1000, 1000 // what limits a load test must not be its client
	if e.Client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if e.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return e, nil
}

// Stop ends everything and removes its files.
func (e *Env) Stop(ctx context.Context) error {
	var left []error
	if e.ControlPlane != nil {
		left = append(left, e.ControlPlane.Stop(ctx))
	}
	return errors.Join(append(left, os.RemoveAll(e.dir))...)
}

// InstallShortLived installs it with certificates that last a minute, which the
// chart's schema allows nobody else.
func (e *Env) InstallShortLived(ctx context.Context, values ...string) error {
	return e.install(ctx, []string{"--skip-schema-validation"}, values)
}

// Install installs the chart, or upgrades it, with values as helm's --set takes
// them, and waits until all of it is ready.
func (e *Env) Install(ctx context.Context, values ...string) error {
	return e.install(ctx, nil, values)
}

func (e *Env) install(ctx context.Context, flags, values []string) error {
	args := []string{"upgrade", "--install", Release, filepath.Join(e.Root, "deploy", "chart"), "--namespace", Home, "--create-namespace",
		"--wait", "--timeout", "3m"}
	args = append(args, flags...)
	repository, tag, _ := strings.Cut(images.Server, ":")
	for _, value := range append([]string{"image.repository=" + repository, "image.tag=" + tag,
		"config.annotations.agent-image=" + images.Agent, "config.annotations.medusa-image=" + images.Agent}, values...) {
		args = append(args, "--set", value)
	}
	_, err := e.Helm(ctx, args...)
	return err
}

// Uninstall removes the release and waits until its objects are gone.
func (e *Env) Uninstall(ctx context.Context) error {
	_, err := e.Helm(ctx, "uninstall", Release, "--namespace", Home, "--wait", "--timeout", "2m", "--ignore-not-found")
	return err
}

// Helm runs helm.
func (e *Env) Helm(ctx context.Context, args ...string) (string, error) {
	return e.run(ctx, e.helm, args...)
}

// CLI runs kubectl-stategraft. A status other than 0 is an [exec.ExitError].
func (e *Env) CLI(ctx context.Context, args ...string) (string, error) {
	return e.run(ctx, e.cli, args...)
}

func (e *Env) run(ctx context.Context, program string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.Kubeconfig(), "HELM_CONFIG_HOME="+e.dir, "HELM_CACHE_HOME="+e.dir, "HELM_DATA_HOME="+e.dir)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(program), args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// Namespace makes a namespace that is injected, with annotations, and waits
// until pods can be made in it.
func (e *Env) Namespace(ctx context.Context, name string, annotations map[string]string) error {
	_, err := e.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{api.LabelInject: api.InjectEnabled}, Annotations: annotations}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making namespace %s: %w", name, err)
	}
	return e.await(ctx, time.Minute, "the service account of "+name, func() (bool, error) {
		_, err := e.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}

// await polls until done answers true or an error. Not often: who measures is on
// the machine that is measured.
func (e *Env) await(ctx context.Context, limit time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-time.After(500 * time.Millisecond):
		}
	}
}
