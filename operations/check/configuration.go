package check

import (
	"context"
	"fmt"
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/webhook"
)

// configuration is the webhook's, as far as it can be read.
type configuration struct {
	config   *webhook.Config // the defaults where nothing better is known
	findings []Finding
}

// configuration reads the ConfigMap that the webhook's Deployment mounts.
func (c *Cluster) configuration(ctx context.Context) configuration {
	got, _ := c.config.get(func() (configuration, error) {
		got := configuration{config: webhook.DefaultConfig()}
		found := c.installation(ctx)
		deployment := found.part(partWebhook)
		if deployment == nil {
			got.findings = []Finding{finding(Info, "", "not known here; defaults are assumed")}
			return got, nil
		}
		name, key, ok := configFile(deployment)
		if !ok {
			got.findings = []Finding{finding(OK, deployment.Namespace+"/"+deployment.Name, "has no configuration file: the defaults")}
			return got, nil
		}
		where := found.Namespace + "/" + name
		object, err := c.Kube.CoreV1().ConfigMaps(found.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			got.findings = []Finding{finding(Fail, where, "the ConfigMap with the webhook's configuration is missing: the webhook cannot start").
				With(applyAgain)}
		case err != nil:
			got.findings = skipped(unread(err, right{Verb: "get", Resource: "configmaps", Name: name, Namespace: found.Namespace}))
		default:
			got = judgeConfiguration(where, key, object.Data)
		}
		return got, nil
	})
	return got
}

// configFile finds the ConfigMap and the key behind --config.
func configFile(d *appsv1.Deployment) (name, key string, ok bool) {
	for _, container := range d.Spec.Template.Spec.Containers {
		for i, arg := range container.Args {
			file, is := strings.CutPrefix(arg, "--config=")
			if arg == "--config" && i+1 < len(container.Args) {
				file, is = container.Args[i+1], true
			}
			if !is {
				continue
			}
			for _, mount := range container.VolumeMounts {
				if mount.MountPath != path.Dir(file) {
					continue
				}
				for _, volume := range d.Spec.Template.Spec.Volumes {
					if volume.Name == mount.Name && volume.ConfigMap != nil {
						return volume.ConfigMap.Name, path.Base(file), true
					}
				}
			}
		}
	}
	return "", "", false
}

// judgeConfiguration reads the file as the webhook does.
func judgeConfiguration(where, key string, data map[string]string) configuration {
	got := configuration{config: webhook.DefaultConfig()}
	text, there := data[key]
	switch {
	case there && strings.TrimSpace(text) == "":
		got.findings = []Finding{finding(Fail, where, "%s is empty; running webhooks keep the last good one, and none can start anew", key).With(applyAgain)}
		return got
	case !there:
		got.findings = []Finding{finding(Fail, where, "has no key %s: the webhook cannot start anew", key).With(applyAgain)}
		return got
	}
	parsed, err := webhook.ParseConfig([]byte(text))
	if err != nil {
		got.findings = []Finding{finding(Fail, where, "%s: %v; running webhooks keep the last good one, and none can start anew", key, err).
			With("%s", fmt.Sprintf("correct %s in the ConfigMap", key))}
		return got
	}
	got.config = parsed
	return got
}

func lookConfiguration(ctx context.Context, c *Cluster) []Finding {
	return c.configuration(ctx).findings
}
