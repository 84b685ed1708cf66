package e2e

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// readyLimit is how long one Cassandra may take from its creation to Ready. It
// takes six seconds on an idle machine.
const readyLimit = 3 * time.Minute

const (
	imagePython  = "/usr/bin/python3"
	medusaPython = "/home/cassandra/.venv/bin/python"
)

// Setup says what is particular of a Cassandra. The zero value is one node with
// everything right.
type Setup struct {
	Name        string // of the StatefulSet; cassandra where it is empty
	Policy      appsv1.PodManagementPolicyType
	Replicas    int               // 1 where it is 0
	Plain       bool              // without the label for injection
	Labels      map[string]string // of the namespace, further ones
	Annotations map[string]string // of the pods
	Medusa      string            // lines at the end of medusa.ini
	Ini         string            // all of medusa.ini, where it is another
	SecretKey   string            // of the bucket, where it is another
	Secrets     map[string]map[string]string
	OwnS3       bool // with an S3 server in its namespace
	NoGRPC      bool // without the Secret that gRPC is served with
	Change      func(*appsv1.StatefulSet)
	NoWait      bool // for its pods to be ready

	User, Password string // of CQL
}

// Cassandra is a StatefulSet in a namespace of its own, with
// Medusa's configuration and credentials.
type Cassandra struct {
	e         *Env
	setup     Setup
	Namespace string
	client    Identity // of who makes backups
	server    Identity // of its sidecars
}

// Cassandra makes one and waits until its pods are ready.
func (e *Env) Cassandra(ctx context.Context, namespace string, s Setup) (*Cassandra, error) {
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if !s.Plain {
		labels[api.LabelInject] = api.InjectEnabled
	}
	e.namespaces = append(e.namespaces, namespace)
	if err := e.CreateNamespace(ctx, namespace, labels, nil); err != nil {
		return nil, err
	}
	client, err := e.authority.issue("stategraft-controller", x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	c := &Cassandra{e: e, setup: s, Namespace: namespace, client: client}
	if s.OwnS3 {
		if err := e.S3(ctx, namespace); err != nil {
			return nil, err
		}
	}
	if err := c.configure(ctx); err != nil {
		return nil, err
	}
	if !s.NoGRPC && e.Controller == nil { // else it makes the Secret
		if err := c.Identify(ctx); err != nil {
			return nil, err
		}
	}
	replicas := max(s.Replicas, 1)
	if err := c.create(ctx, replicas); err != nil || s.NoWait {
		return c, err
	}
	return c, c.AllReady(ctx, time.Duration(replicas)*readyLimit)
}

// configure makes the ConfigMap and the Secret of Medusa.
func (c *Cassandra) configure(ctx context.Context) error {
	host, key := "s3.s3.svc.cluster.local", c.setup.SecretKey
	if c.setup.OwnS3 {
		host = "s3." + c.Namespace + ".svc.cluster.local"
	}
	if key == "" {
		key = secretKey
	}
	ini := c.setup.Ini
	if ini == "" {
		ini = fmt.Sprintf("[storage]\nstorage_provider = s3_compatible\nbucket_name = %s\nprefix = %s\nhost = %s\nport = 9000\nsecure = False\nregion = us-east-1\n%s",
			Bucket, c.Namespace, host, c.setup.Medusa)
	}
	if _, err := c.e.Client.CoreV1().ConfigMaps(c.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: patches.DefaultMedusaConfig}, Data: map[string]string{"medusa.ini": ini},
	}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making the ConfigMap of Medusa: %w", err)
	}
	secrets := map[string]map[string]string{patches.DefaultStorageSecret: {
		"credentials": fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", accessKey, key)}}
	maps.Copy(secrets, c.setup.Secrets)
	for name, data := range secrets {
		if _, err := c.e.Client.CoreV1().Secrets(c.Namespace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making Secret %s: %w", name, err)
		}
	}
	return nil
}

// create makes the Service and the StatefulSet.
func (c *Cassandra) create(ctx context.Context, replicas int) error {
	text, err := expand("manifests/cassandra.yaml", map[string]string{"NAME": c.Name(), "NAMESPACE": c.Namespace, "REPLICAS": strconv.Itoa(replicas)})
	if err != nil {
		return err
	}
	first, second, _ := strings.Cut(text, "\n---\n")
	var service corev1.Service
	var set appsv1.StatefulSet
	if err := yaml.UnmarshalStrict([]byte(first), &service); err != nil {
		return fmt.Errorf("reading the Service: %w", err)
	}
	if err := yaml.UnmarshalStrict([]byte(second), &set); err != nil {
		return fmt.Errorf("reading the StatefulSet: %w", err)
	}
	if c.setup.Policy != "" {
		set.Spec.PodManagementPolicy = c.setup.Policy
	}
	if len(c.setup.Annotations) > 0 {
		set.Spec.Template.Annotations = c.setup.Annotations
	}
	if c.setup.Change != nil {
		c.setup.Change(&set)
	}
	if _, err := c.e.Client.CoreV1().Services(c.Namespace).Create(ctx, &service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making the Service: %w", err)
	}
	if _, err := c.e.Client.AppsV1().StatefulSets(c.Namespace).Create(ctx, &set, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making the StatefulSet: %w", err)
	}
	return nil
}
