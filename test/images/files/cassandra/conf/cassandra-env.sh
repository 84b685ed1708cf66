# Read by bin/cassandra: adds to JVM_OPTS.
JMX_PORT=${JMX_PORT:-7199}
JVM_OPTS="$JVM_OPTS -Xms${MAX_HEAP_SIZE:-512M} -Xmx${MAX_HEAP_SIZE:-512M}"
[ -z "$HEAP_NEWSIZE" ] || JVM_OPTS="$JVM_OPTS -Xmn$HEAP_NEWSIZE"
if [ "${LOCAL_JMX:-yes}" = yes ]; then
	JVM_OPTS="$JVM_OPTS -Dcassandra.jmx.local.port=$JMX_PORT -Dcom.sun.management.jmxremote.authenticate=false"
else
	JVM_OPTS="$JVM_OPTS -Dcassandra.jmx.remote.port=$JMX_PORT -Dcom.sun.management.jmxremote.rmi.port=$JMX_PORT"
	JVM_OPTS="$JVM_OPTS -Dcom.sun.management.jmxremote.authenticate=true -Dcom.sun.management.jmxremote.password.file=$CASSANDRA_CONF/jmxremote.password"
fi
JVM_OPTS="$JVM_OPTS $JVM_EXTRA_OPTS"
