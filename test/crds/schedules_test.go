package crds

import (
	"strings"
	"testing"
)

func TestBackupSchedule(t *testing.T) {
	schedules := load(t, "backupschedules")
	const template = ", template: {spec: {pods: {names: [a]}}}"
	const nightly = "schedule: '0 3 * * *'"
	for spec, say := range map[string]string{
		nightly + template:              "",
		nightly:                         "Required",
		"schedule: '@daily'" + template: "",
		"schedule: '*/5 0-3,9 ? JAN-MAR mon'" + template:                  "",
		"schedule: '@every 1h'" + template:                                "five fields",
		"schedule: '@reboot'" + template:                                  "five fields",
		"schedule: '0 3 * *'" + template:                                  "five fields",
		"schedule: '0 0 3 * * *'" + template:                              "five fields",
		"schedule: 'CRON_TZ=UTC 0 3 * * *'" + template:                    "say it in timeZone",
		"schedule: ''" + template:                                         "at least 1",
		nightly + ", timeZone: Europe/Berlin" + template:                  "",
		nightly + ", timeZone: Etc/GMT+1" + template:                      "",
		nightly + ", timeZone: America/Argentina/Buenos_Aires" + template: "",
		nightly + ", timeZone: Local" + template:                          "name of a time zone",
		nightly + ", timeZone: ../etc" + template:                         "name of a time zone",
		nightly + ", timeZone: ''" + template:                             "name of a time zone",
		nightly + ", jitter: 15m, startingDeadline: 2h, concurrencyPolicy: Replace, historyLimit: 0, failedHistoryLimit: 5, suspend: true" + template: "",
		nightly + ", jitter: 25h" + template:              "up to 24h",
		nightly + ", startingDeadline: 10s" + template:    "at least 1m",
		nightly + ", concurrencyPolicy: Allow" + template: "Unsupported",
		nightly + ", historyLimit: 101" + template:        "less than or equal",

		nightly + ", retention: {}" + template:                   "say what is kept",
		nightly + ", retention: {dryRun: true}" + template:       "say what is kept",
		nightly + ", retention: {keepLast: 0}" + template:        "greater than or equal",
		nightly + ", retention: {keepWithin: 0d}" + template:     "such as 36h",
		nightly + ", retention: {keepWithin: 14}" + template:     "must be of type string",
		nightly + ", retention: {keepWithin: 14days}" + template: "such as 36h",
		nightly + ", retention: {keepLast: 7, keepWithin: 14d, keepDaily: 7, keepWeekly: 4, keepMonthly: 12, incomplete: 2d, dryRun: true}" + template: "",

		nightly + ", template: {spec: {existing: {name: a, prefix: ''}}}":                                           "give it pods",
		nightly + ", template: {spec: {}}":                                                                          "say which pods",
		nightly + ", template: {spec: {pods: {names: [a]}, pinned: true}}":                                          "retention would never",
		nightly + ", template: {spec: {pods: {names: [a]}, suspend: true}}":                                         "suspend the schedule",
		nightly + ", template: {spec: {pods: {names: [a]}, dryRun: true}}":                                          "suspend the schedule",
		nightly + ", template: {metadata: {labels: {a: b}}, spec: {pods: {names: [a]}, pinned: false, type: full}}": "",

		nightly + ", verify: {}" + template:                    "Required",
		nightly + ", verify: {schedule: often}" + template:     "five fields",
		nightly + ", verify: {schedule: '@weekly'}" + template: "",
		nightly + ", verify: {schedule: '@weekly', nodes: 0, timeout: 1h, resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}, volume: {size: 10Gi, storageClassName: fast}}" + template: "",
		nightly + ", verify: {schedule: '@weekly', volume: {size: much}}" + template:                                                                                                           "size",
	} {
		want(t, spec, schedules.judge(schedules.object(t, "s", spec, ""), nil), say)
	}
	long := strings.Repeat("s", 47)
	want(t, "47 characters", schedules.judge(schedules.object(t, long, nightly+template, ""), nil), "")
	want(t, "48 characters", schedules.judge(schedules.object(t, long+"s", nightly+template, ""), nil), "at most 47")
	// All of it can be changed.
	before, after := schedules.object(t, "s", nightly+template, ""), schedules.object(t, "s", "schedule: '@weekly', suspend: true, template: {spec: {pods: {workload: {name: db}}}}",
		"history: [{scheduled: '2026-11-30T03:00:00Z', outcome: Complete, reason: Due}], retention: {kept: 3, deleted: [{backup: b, reason: older}]}")
	want(t, "changed", schedules.judge(after, before), "")
}

// A schedule without retention deletes nothing.
func TestDefaultsOfBackupSchedule(t *testing.T) {
	schedules := load(t, "backupschedules")
	spec := schedules.object(t, "s", "schedule: '@daily', template: {spec: {pods: {workload: {name: db}}}}", "")["spec"].(map[string]any)
	if spec["retention"] != nil || spec["verify"] != nil || spec["concurrencyPolicy"] != "Forbid" || len(spec) != 3 {
		t.Errorf("the defaults come to %v", spec)
	}
	template := spec["template"].(map[string]any)["spec"].(map[string]any)
	if template["deletionPolicy"] != "Keep" || len(template) != 2 {
		t.Errorf("the template comes to %v", template)
	}
}
