// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestFaultsOfOneDirection checks that such a fault strikes only scale-ups or only scale-downs of an own cluster.
func TestFaultsOfOneDirection(t *testing.T) {
	for direction, want := range map[emulator.ScaleDirection]string{emulator.ScaleUp: "x.......", emulator.ScaleDown: ".xx.....", "": "xxxxxx.x"} {
		bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
			id := c.create(c.newCluster(3))
			inject(t, p, emulator.Fault{Path: "/kubernetes-clusters/*/*", Method: "POST", Scale: direction, Code: emulator.CodeOperationNotAllowed})
			scale := "/kubernetes-clusters/" + id + "/scale"
			got := ""
			for _, r := range []*reply{
				c.post(scale, `{"size":4}`), c.post(scale, `{"size":2}`), c.post(scale, `{"size":0}`),
				c.post(scale, `{"size":3}`), c.post(scale, `{"size":"1"}`), c.post("/kubernetes-clusters/none/scale", `{"size":1}`),
				c.post("/networks", `{"cidr":"10.0.0.0/24"}`), c.post(strings.Replace(scale, "scale", "upgrade", 1), c.versionBody("v1.35.6")),
			} {
				got += mark(r.at("error", "code") == emulator.CodeOperationNotAllowed)
			}
			if got != want {
				t.Errorf("%q: struck %s, want %s", direction, got, want)
			}
		})
	}
}

// TestFaultsForAWhile checks that a fault's time begins with the first struck call, and that a count may end the fault earlier.
func TestFaultsForAWhile(t *testing.T) {
	for want, fault := range map[string]emulator.Fault{
		"xxxx..": {For: time.Minute}, // calls come every 20 seconds
		"xx....": {For: time.Minute, Count: 2},
		".xxxx.": {For: time.Minute, Nth: 2},
	} {
		bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
			fault.Status, fault.Path = 503, "/vpcs"
			fault.For += time.Second
			inject(t, p, fault)
			time.Sleep(time.Hour)
			got := ""
			for range 6 {
				got += mark(c.get("/vpcs").status == 503)
				time.Sleep(20 * time.Second)
			}
			if got != want {
				t.Errorf("struck %s, want %s", got, want)
			}
		})
	}
}
