package e2e

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
	"github.com/stategraft/stategraft/test/images"
	"github.com/stategraft/stategraft/webhook"
)

const (
	// EnabledEnv is the environment variable that the scenarios look at: they
	// skip unless it is "1".
	EnabledEnv = "STATEGRAFT_E2E"
	// RestoresEnv is that of the scenarios that need the controllers: they skip
	// unless it is "1". The others know what would be healed meanwhile, and run
	// without.
	RestoresEnv = "STATEGRAFT_E2E_RESTORES"
	// LogsEnv names the folder for what is kept of failed scenarios.
	LogsEnv = "STATEGRAFT_E2E_LOGS"
	// TimesEnv says what becomes of the lengths of time that are measured: they
	// are held against their limits, or only printed where it is "print". A
	// machine that does something else meanwhile tells nothing about us.
	TimesEnv = "STATEGRAFT_E2E_TIMES"
)

// The S3 server: manifests/s3.yaml.
const (
	Bucket    = "backups"
	accessKey = "e2eaccess"
	secretKey = "e2esecret"
)

//go:embed manifests scripts
var embedded embed.FS

// Env is a cluster that scenarios run in.
type Env struct {
	*rigged.Rig
	log       io.Writer
	authority *authority // of the sidecars' gRPC
	// namespaces of the scenario
	namespaces []string
}

// patient is how long is waited for something that takes limit at most on a quiet machine.
// Where lengths of time are not judged it does something else meanwhile, and everything may
// take several times as long.
func patient(limit time.Duration) time.Duration {
	if os.Getenv(TimesEnv) == "print" {
		return 3 * limit
	}
	return limit
}

// Scenario is the same cluster for one scenario, whose namespaces Forget deletes.
func (e *Env) Scenario() *Env { return &Env{Rig: e.Rig, log: e.log, authority: e.authority} }

// Start builds what is missing and starts everything: the control plane with
// the webhook, and on request the controllers, the node with the images, the S3
// server. The caller has to call Stop.
func Start(ctx context.Context, log io.Writer, controllers bool) (_ *Env, err error) {
	if log == nil {
		log = io.Discard
	}
	// What takes long and needs nothing running comes first.
	if _, err := cluster.Build(ctx, log, append(cluster.ControlPlanePrograms(), cluster.NodePrograms()...)...); err != nil {
		return nil, err
	}
	if err := cluster.InstallNode(ctx, log); err != nil {
		return nil, err
	}
	archives, err := images.Build(ctx, log, images.All()...)
	if err != nil {
		return nil, err
	}
	rig, err := rigged.Start(ctx, rigged.Options{Log: log, Controller: controllers, Config: fmt.Sprintf(
		"apiVersion: %s\nkind: %s\nannotations:\n  %s: %s\n  %s: %s\nmedusa:\n  anyUIDImage: %s\n",
		webhook.ConfigVersion, webhook.ConfigKind, path.Base(api.AnnotationMedusaImage), images.Medusa,
		path.Base(api.AnnotationAgentImage), images.Agent, images.AnyUID)})
	if err != nil {
		return nil, err
	}
	e := &Env{Rig: rig, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if e.authority, err = e.findAuthority(ctx); err != nil {
		return nil, err
	}
	if err := e.StartNode(ctx, log); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := e.LoadImages(ctx, archives...); err != nil {
		return nil, err
	}
	fmt.Fprintf(log, "e2e: loaded %d images in %s\n", len(archives), time.Since(began).Round(100*time.Millisecond))
	if err := e.CreateNamespace(ctx, "s3", nil, nil); err != nil {
		return nil, err
	}
	return e, e.S3(ctx, "s3")
}

// S3 starts an S3 server in a namespace, s3:9000 there.
func (e *Env) S3(ctx context.Context, namespace string) error {
	if err := e.Apply(ctx, namespace, "s3.yaml", nil); err != nil {
		return err
	}
	return e.RolledOut(ctx, namespace, "deployment/s3", 3*time.Minute)
}

// Forget deletes the namespaces that the scenario has made, so that the next has
// the machine for itself.
func (e *Env) Forget(ctx context.Context) error {
	defer func() { e.namespaces = nil }()
	for _, namespace := range e.namespaces {
		// The namespace's own end takes half a minute; its pods' is what counts.
		if _, err := e.Kubectl(ctx, nil, "-n", namespace, "delete", "statefulset,deployment", "--all", "--cascade=foreground", "--timeout=300s"); err != nil {
			return err
		}
		if _, err := e.Kubectl(ctx, nil, "delete", "namespace", namespace, "--wait=false"); err != nil {
			return err
		}
	}
	return nil
}

// expand reads an embedded file and fills it in: @IMAGES@ and what values has.
func expand(name string, values map[string]string) (string, error) {
	text, err := embedded.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	pairs := []string{"@CASSANDRA_IMAGE@", images.Cassandra, "@S3_IMAGE@", images.S3,
		"@BUCKET@", Bucket, "@ACCESS_KEY@", accessKey, "@SECRET_KEY@", secretKey}
	for key, value := range values {
		pairs = append(pairs, "@"+key+"@", value)
	}
	filled := strings.NewReplacer(pairs...).Replace(string(text))
	if at := strings.Index(filled, "@"); at >= 0 {
		return "", fmt.Errorf("%s: something is not filled in: %q", name, filled[at:min(len(filled), at+30)])
	}
	return filled, nil
}
