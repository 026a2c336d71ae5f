#!/bin/sh
# Puts a Kafka release's jars and the few scripts that docs/howto/own-broker.md uses into a folder, where the release
# itself cannot be downloaded: from_maven.sh VERSION FOLDER. Needs Maven. The scripts take the same arguments and the
# same variables (KAFKA_OPTS, KAFKA_LOG4J_OPTS, LOG_DIR) as Kafka's.
set -eu
version=$1
folder=$2
mkdir -p "$folder/bin"
home=$(cd "$folder" && pwd)
case $version in
  4.*) logging="-Dlogging.group=org.apache.logging.log4j -Dlogging.artifact=log4j-slf4j-impl -Dlogging.version=2.24.3" ;;
  *) logging="-Dlogging.group=org.slf4j -Dlogging.artifact=slf4j-reload4j -Dlogging.version=1.7.36" ;;
esac
# shellcheck disable=SC2086 # three options
mvn -q -B -f "$(dirname "$0")/pom.xml" -Dkafka.version="$version" $logging \
  dependency:copy-dependencies -DoutputDirectory="$home/libs"
case $version in
  3.[0-6].*) topics=kafka.admin.TopicCommand ;;
  *) topics=org.apache.kafka.tools.TopicCommand ;;
esac
script() {
  printf '#!/bin/sh\nexec java -Dkafka.logs.dir="${LOG_DIR:-.}" $KAFKA_OPTS $KAFKA_LOG4J_OPTS -cp "%s/libs/*" %s "$@"\n' \
    "$home" "$2" > "$home/bin/$1"
  chmod +x "$home/bin/$1"
}
script kafka-storage.sh kafka.tools.StorageTool
script kafka-server-start.sh kafka.Kafka
script kafka-topics.sh "$topics"
script kafka-configs.sh kafka.admin.ConfigCommand
script kafka-producer-perf-test.sh org.apache.kafka.tools.ProducerPerformance
