package webhook

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// A backup's name becomes part of object keys and file names in the storage
// (medusa/storage/node_backup.py), so it has no slash.
var (
	backupPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:+-]{0,252}$`)
	nodePattern   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?$`)
)

func backupName(text string) (string, error) {
	if text == "" {
		return "", errors.New("it is empty; name a backup, or take the annotation off to start without a restore")
	}
	if _, err := time.Parse(time.RFC3339, text); err == nil || text == api.BackupLatest {
		return "", errors.New("a template cannot ask for the newest backup, or the newest before a time: each new pod would find another; name a backup, or make a Restore, or annotate the running pod")
	}
	if !backupPattern.MatchString(text) || strings.Contains(text, "..") {
		return "", errors.New("it takes the name of a backup: a letter or digit, then letters, digits and . _ : + - (no slash, no ..), at most 253")
	}
	return text, nil
}

// sourceNames reads whose data are restored: a node of the backup. A pod of Anna's may
// take those of several, or of all.
func sourceNames(text string) (string, error) {
	if text == patches.AnySource {
		return text, nil
	}
	for _, name := range strings.Split(text, ",") {
		if !nodePattern.MatchString(name) || len(text) > 4096 {
			return "", errors.New("it takes the name of a node in the backup, such as cassandra-0; for Anna also several, with a comma and no space between them, or * for all")
		}
	}
	return text, nil
}

func onConfigChange(text string) error {
	if text != api.OnConfigChangeRestart {
		return errors.New("it takes restart")
	}
	return nil
}

func adopt(text string) error {
	if text != api.AdoptRunning && text != api.AdoptNever {
		return fmt.Errorf("it takes %s or %s", api.AdoptRunning, api.AdoptNever)
	}
	return nil
}

// renewLimit is how long the value may be: each container that is added has it in a variable.
const renewLimit = 128

func renew(text string) error {
	if text == "" || len(text) > renewLimit {
		return fmt.Errorf("it takes any text of up to %d bytes that was not there before, such as the time", renewLimit)
	}
	return nil
}

func objectName(text string) (string, error) {
	if problems := validation.IsDNS1123Subdomain(text); len(problems) > 0 {
		return "", errors.New("it takes the name of an object in the pod's namespace (lower case letters, digits, - and .)")
	}
	return text, nil
}

func objectNameOrNone(text string) (string, error) {
	if text == "none" {
		return "", nil
	}
	name, err := objectName(text)
	if err != nil {
		return "", fmt.Errorf("%w, or none for workload identity", err)
	}
	return name, nil
}

func partName(text string) (string, error) {
	if problems := validation.IsDNS1123Label(text); len(problems) > 0 {
		return "", errors.New("it takes the name of a container or volume of the pod")
	}
	return text, nil
}

func boolean(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New(`it takes "true" or "false"`)
}

func onOff(text string) (bool, error) {
	switch text {
	case "on":
		return true, nil
	case "off":
		return false, nil
	}
	return false, errors.New(`it takes "on" or "off", in quotes: YAML takes the bare words for true and false`)
}

func spread(text string) (host, zone bool, err error) {
	for _, part := range strings.Split(text, ",") {
		switch strings.TrimSpace(part) {
		case "host":
			host = true
		case "zone":
			zone = true
		default:
			return false, false, errors.New("it takes host, zone or host,zone")
		}
	}
	return host, zone, nil
}

func selector(text string) (*metav1.LabelSelector, error) {
	parsed, err := metav1.ParseToLabelSelector(text)
	if err != nil || len(parsed.MatchLabels)+len(parsed.MatchExpressions) == 0 {
		return nil, errors.New("it takes a label selector, such as role=memory or app in (a,b)")
	}
	return parsed, nil
}

func exposure(text string) (bool, error) {
	if text != "LoadBalancer" {
		return false, errors.New("it takes LoadBalancer")
	}
	return true, nil
}

func image(text string) (string, error) {
	if len(text) > 1024 {
		return "", errors.New("it takes the name of an image")
	}
	if _, err := reference.ParseNormalizedNamed(text); err != nil {
		return "", fmt.Errorf("it takes the name of an image: %w", err)
	}
	return text, nil
}

func port(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1024 || n > 65535 || strconv.FormatInt(n, 10) != text {
		return 0, errors.New("it takes a port from 1024 to 65535")
	}
	return int32(n), nil
}

// cron checks a cron expression, which is meant in UTC.
func cron(text string) error {
	if _, err := schedule.Parse(text, ""); err != nil {
		return fmt.Errorf("it takes a cron expression in UTC, such as 0 3 * * * or @daily: %w", err)
	}
	return nil
}

// resources reads a container's resources, written as YAML or JSON.
func resources(text string) (patches.Resources, error) {
	const example = `it takes a container's resources, such as {"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"1Gi"}}`
	if len(text) > 4096 {
		return patches.Resources{}, errors.New(example)
	}
	var parsed corev1.ResourceRequirements
	if err := yaml.UnmarshalStrict([]byte(text), &parsed); err != nil {
		return patches.Resources{}, errors.New(example)
	}
	return checkResources(parsed)
}

// checkResources takes over what a sidecar can be given.
func checkResources(r corev1.ResourceRequirements) (patches.Resources, error) {
	var out patches.Resources
	if len(r.Requests) == 0 && len(r.Limits) == 0 || len(r.Claims) > 0 {
		return out, errors.New("it takes requests and limits of cpu, memory and ephemeral-storage")
	}
	var err error
	if out.Requests, err = amounts(r.Requests); err != nil {
		return out, err
	}
	if out.Limits, err = amounts(r.Limits); err != nil {
		return out, err
	}
	// Less cannot start: the container would be killed at once.
	for name, least := range map[corev1.ResourceName]resource.Quantity{corev1.ResourceCPU: leastCPU, corev1.ResourceMemory: leastMemory} {
		if limit, ok := r.Limits[name]; ok && limit.Cmp(least) < 0 {
			return out, fmt.Errorf("a limit of %s below %s is too little to start with", name, least.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request := r.Requests[name]
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			return out, fmt.Errorf("the request of %s is above its limit", name)
		}
	}
	return out, nil
}

var (
	leastCPU    = resource.MustParse("10m")
	leastMemory = resource.MustParse("16Mi")
)

func amounts(list corev1.ResourceList) (a patches.Amounts, err error) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		switch name {
		case corev1.ResourceCPU:
			a.CPU = quantity.String()
		case corev1.ResourceMemory:
			a.Memory = quantity.String()
		case corev1.ResourceEphemeralStorage:
			a.EphemeralStorage = quantity.String()
		default:
			return a, fmt.Errorf("%s is no resource that a sidecar is given; it takes cpu, memory and ephemeral-storage", workload.Short(string(name)))
		}
		if quantity.Sign() <= 0 {
			return a, fmt.Errorf("%s is not above zero", name)
		}
	}
	return a, nil
}
