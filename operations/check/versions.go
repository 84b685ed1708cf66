package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	imageref "github.com/distribution/reference"
)

func lookVersions(ctx context.Context, c *Cluster) []Finding {
	found := c.installation(ctx)
	images := map[string]string{}
	for _, d := range found.Deployments {
		for _, container := range d.Spec.Template.Spec.Containers {
			images[d.Labels[labelPart]] = container.Image
			break // what others put beside it is not ours
		}
	}
	agents := map[string]int{}
	if s, err := c.sweep(ctx); err == nil { // the items on pods say so otherwise
		agents = s.agents
	}
	return judgeVersions(c.Version, images, agents)
}

// judgeVersions tells what runs in which version. Different ones are meant to
// work together, so that nothing here is a fault.
func judgeVersions(cli string, images map[string]string, agents map[string]int) []Finding {
	parts := []string{"command line " + cli}
	tags := map[string]bool{}
	for _, part := range slices.Sorted(maps.Keys(images)) {
		tag := tagOf(images[part])
		tags[tag] = true
		parts = append(parts, part+" "+tag)
	}
	findings := []Finding{finding(Info, "", "%s", strings.Join(parts, ", "))}
	if len(tags) > 1 {
		findings[0].Remedy = "webhook and controller are of one release as a rule: is a rollout under way?"
	}
	if len(agents) > 1 {
		var texts []string
		for _, image := range slices.Sorted(maps.Keys(agents)) {
			texts = append(texts, fmt.Sprintf("%s in %s", image, counted(agents[image], "pod", "")))
		}
		findings = append(findings, finding(Info, "", "agents of several versions: %s", strings.Join(texts, "; ")).
			With("pods get the newer one when they are created anew"))
	}
	return findings
}

// tagOf is the tag or the digest of an image.
func tagOf(image string) string {
	named, err := imageref.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	if digested, ok := named.(imageref.Digested); ok {
		return digested.Digest().String()
	}
	return imageref.TagNameOnly(named).(imageref.Tagged).Tag()
}
